// SPDX-License-Identifier: Apache-2.0
// Our programs under our launcher, through its own store.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>

#include <gtest/gtest.h>

#include "support/command.h"
#include "support/temporary_folder.h"

namespace accelerate::test {
namespace {

CommandOptions launch_command(const std::string& options) {
  // Machines of one job share it, and the secret in it.
  static const std::string home = fresh_folder();
  CommandOptions command;
  command.words = {
      "/bin/sh",
      "-c",
      std::string(ACCELERATE_CLI) + " launch --cpu " + options};
  command.environment = {
      {"HOME", home},
      {"PATH", "/usr/bin:/bin"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"PROGRAM", ACCELERATE_PROGRAM},
      {"TRAINING", ACCELERATE_TRAINING}};
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

TEST(LaunchedTraining, ThatThrowsIsReportedWithItsStepAndException) {
  const auto result = launch_program("--num_processes 3 $TRAINING throw=1@4");

  EXPECT_EQ(result.exit_code, 134) << result.err;
  const auto report = result.err.find("error: rank 1 failed first");
  ASSERT_NE(report, std::string::npos) << result.err;
  EXPECT_NE(
      result.err.find(": killed by SIGABRT, at step 3\n", report),
      std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find(
          "  it reported:\n    std::runtime_error: the loss is not a number\n",
          report),
      std::string::npos)
      << result.err;
}

TEST(LaunchedTraining, AloneIsReportedTheSameWay) {
  const auto result = launch_program("$TRAINING throw=0@4");

  EXPECT_NE(result.err.find(", at step 3\n"), std::string::npos) << result.err;
  EXPECT_NE(
      result.err.find("it reported:\n    std::runtime_error"),
      std::string::npos)
      << result.err;
}

TEST(LaunchedTraining, TheLauncherKnowsWhoIsWhere) {
  auto command = launch_command("--num_processes 2 $TRAINING stall=1@6");
  command.words[2] = "exec " + command.words[2];
  int asked = 0;
  command.watch = [&](pid_t pid, const std::string& err) {
    if (err.find("waits for rank 1") != std::string::npos) {
      ::kill(pid, SIGTERM);
      return true;
    }
    if (++asked % 100 == 0) {
      ::kill(pid, SIGQUIT);
    }
    return false;
  };

  const auto result = run_command(command);

  EXPECT_NE(result.err.find(": runs, at step 6, backward #"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find(": runs, at step 5\n"), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find("error: interrupted by SIGTERM on "), std::string::npos)
      << result.err;
  EXPECT_EQ(result.exit_code, 143);
}

// Asks the launcher of each of two machines until it has said `wanted`.
TEST(LaunchedTraining, EveryLauncherKnowsWhoIsWhereOnTheOthers) {
  const std::string options =
      "--num_machines 2 --num_processes 4 --main_process_ip 127.0.0.1 "
      "--main_process_port " +
      std::to_string(20000 + ::getpid() % 10000);
  const std::string wanted[] = {
      "rank 2 elsewhere: runs, at step 6, ", "rank 0 elsewhere: runs, at step"};
  std::atomic<int> heard = 0;
  const auto run_machine = [&](int machine) {
    auto command = launch_command(
        options + " --machine_rank " + std::to_string(machine) +
        " $TRAINING stall=3@6");
    command.words[2] = "exec " + command.words[2];
    int asked = 0;
    bool satisfied = false;
    command.watch = [=, &wanted, &heard](
                        pid_t pid, const std::string& err) mutable {
      if (!satisfied && err.find(wanted[machine]) != std::string::npos) {
        satisfied = true;
        ++heard;
      }
      if (heard == 2) {
        ::kill(pid, SIGTERM);
        return true;
      }
      if (++asked % 100 == 0) {
        ::kill(pid, SIGQUIT);
      }
      return false;
    };
    return run_command(command);
  };
  auto second = std::async(std::launch::async, [&] { return run_machine(1); });

  const auto result = run_machine(0);
  const auto other = second.get();

  EXPECT_NE(result.err.find(wanted[0]), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("waits for rank 3"), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find("rank 3 elsewhere: runs, at step 5"), std::string::npos)
      << result.err;
  EXPECT_NE(other.err.find(wanted[1]), std::string::npos) << other.err;
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
      "ok: a data loader's batches, gathered, are the data set in order\n"
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
