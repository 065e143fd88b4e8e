// SPDX-License-Identifier: Apache-2.0
// Our programs under our launcher, through its own store.
#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>

#include "support/command.h"

namespace accelerate::test {
namespace {

CommandOptions launch_command(const std::string& options) {
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
  return command;
}

CommandResult launch_program(const std::string& options) {
  return run_command(launch_command(options));
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

TEST(LaunchedSource, IsCompiledAgainstThisBuild) {
  CommandOptions command =
      launch_command("--num_processes 2 " ACCELERATE_PROGRAM_SOURCE);
  command.timeout = std::chrono::seconds(150);

  const auto result = run_command(command);

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "2 processes, sum of ranks 1\n");
}

TEST(SelfTest, SaysWhatItChecked) {
  CommandOptions command = launch_command("");
  command.words[2] =
      std::string(ACCELERATE_CLI) + " test --cpu --num_processes 3";

  const auto result = run_command(command);

  if (result.err.find("this installation lacks") != std::string::npos) {
    GTEST_SKIP() << "built without examples";
  }
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      result.out.substr(result.out.find('\n') + 1),
      "ok: every sample goes to one process, in order\n"
      "ok: gather of tensors of different sizes\n"
      "ok: reduce to the mean\n"
      "ok: broadcast from the last process\n"
      "ok: 50 steps of training equal those of one process\n");
  EXPECT_EQ(result.err, "All checks passed.\n");
}

TEST(LaunchedProgram, TheLauncherKnowsWhoWaitsForWhom) {
  auto command = launch_command("--num_processes 2 $PROGRAM sleeps");
  command.words[2] = "exec " + command.words[2];
  const std::string wanted = "waits for rank 1";
  int asked = 0;
  command.watch = [&](pid_t pid, const std::string& err) {
    if (err.find(wanted) != std::string::npos) {
      ::kill(pid, SIGTERM);
      return true;
    }
    // Asks about twice a second until the wait is long enough to be told.
    if (++asked % 100 == 0) {
      ::kill(pid, SIGQUIT);
    }
    return false;
  };

  const auto result = run_command(command);

  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.err.find(", waits for rank 1"), std::string::npos)
      << result.err;
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
