// SPDX-License-Identifier: Apache-2.0
// Our programs under our launcher, through its own store.
#include <cstdlib>

#include <gtest/gtest.h>

#include "support/command.h"

namespace accelerate::test {
namespace {

CommandResult launch_program(const std::string& options) {
  CommandOptions command;
  command.words = {
      "/bin/sh",
      "-c",
      std::string(ACCELERATE_CLI) + " launch --cpu " + options};
  command.environment = {
      {"HOME", testing::TempDir()},
      {"PATH", "/usr/bin:/bin"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"PROGRAM", ACCELERATE_PROGRAM}};
  command.timeout = std::chrono::seconds(50);
  return run_command(command);
}

TEST(LaunchedProgram, MeetsTheOthersAtTheLaunchersStore) {
  // With nothing at MASTER_PORT they can meet nowhere else.
  const auto result =
      launch_program("--num_processes 3 sh -c 'MASTER_PORT=1 exec $PROGRAM'");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "3 processes, sum of ranks 3\n");
}

TEST(LaunchedProgram, AloneItNeedsNobody) {
  EXPECT_EQ(launch_program("$PROGRAM").out, "1 processes, sum of ranks 0\n");
}

TEST(LaunchedProgram, ThatThrowsIsTheOneReported) {
  const auto result = launch_program("--num_processes 3 $PROGRAM 1");

  EXPECT_EQ(result.exit_code, 134) << result.err;
  EXPECT_NE(result.err.find("error: rank 1 failed first"), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.rfind("what():  the loss is not a number"), std::string::npos)
      << result.err;
  EXPECT_LT(result.seconds, 20);
}

TEST(LaunchedProgram, MeetsAcrossTwoMachines) {
  // Both on this host, but with ranks, addresses and a secret of their own.
  const std::string options =
      "--num_machines 2 --num_processes 4 --main_process_ip 127.0.0.1 "
      "--main_process_port " +
      std::to_string(20000 + ::getpid() % 10000) + " --machine_rank ";

  const auto result = launch_program(
      options + "1 $PROGRAM > /dev/null & " + ACCELERATE_CLI +
      " launch --cpu " + options + "0 $PROGRAM; code=$?; wait; exit $code");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "4 processes, sum of ranks 6\n");
}

}  // namespace
}  // namespace accelerate::test
