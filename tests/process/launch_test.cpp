// SPDX-License-Identifier: Apache-2.0
// Programs under `accelerate launch`, with the store of the launcher.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>

#include <gtest/gtest.h>

#include "support/command.h"
#include "support/temporary_directory.h"

namespace accelerate::test {
namespace {

CommandOptions launch_command(const std::string& options) {
  // The machines of a job share the home folder and the secret in it.
  static const std::string home = fresh_folder();
  CommandOptions command;
  command.argv = {
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

TEST(LaunchedProgram, UsesTheLaunchersStore) {
  // Nothing listens at MASTER_PORT, so the program must use the launcher's
  // store.
  const auto result =
      launch_program("--num_processes 3 sh -c 'MASTER_PORT=1 exec $PROGRAM'");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "3 processes, sum of ranks 3\n");
}

TEST(LaunchedProgram, RunsAsASingleProcess) {
  EXPECT_EQ(launch_program("$PROGRAM").out, "1 processes, sum of ranks 0\n");
}

TEST(LaunchedProgram, IsReportedWhenItThrows) {
  const auto result = launch_program("--num_processes 3 $PROGRAM 1");

  EXPECT_EQ(result.exit_code, 134) << result.err;
  EXPECT_NE(result.err.find("error: rank 1 failed first"), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find(
          "  it reported:\n    std::runtime_error: the loss is not a number\n"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(
      result.err.find("the loss is not a number"),
      result.err.rfind("the loss is not a number"))
      << "an error is printed once: " << result.err;
  EXPECT_LT(result.seconds, 20);
}

TEST(LaunchedTraining, IsReportedWithItsStepAndException) {
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

TEST(LaunchedTraining, IsReportedTheSameWayAsASingleProcess) {
  const auto result = launch_program("$TRAINING throw=0@4");

  EXPECT_NE(result.err.find(", at step 3\n"), std::string::npos) << result.err;
  EXPECT_NE(
      result.err.find("it reported:\n    std::runtime_error"),
      std::string::npos)
      << result.err;
}

TEST(LaunchedTraining, ShowsTheStepOfEachRank) {
  auto command = launch_command("--num_processes 2 $TRAINING stall=1@6");
  command.argv[2] = "exec " + command.argv[2];
  int asked = 0;
  command.watch = [&](pid_t pid, const std::string& err) {
    if (err.find("waiting for rank 1") != std::string::npos) {
      ::kill(pid, SIGTERM);
      return true;
    }
    if (++asked % 100 == 0) {
      ::kill(pid, SIGQUIT);
    }
    return false;
  };

  const auto result = run_command(command);

  EXPECT_NE(
      result.err.find(": running, at step 6, backward #"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find(": running, at step 5\n"), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find("error: interrupted by SIGTERM on "), std::string::npos)
      << result.err;
  EXPECT_EQ(result.exit_code, 143);
}

// Requests the status from the launchers on two machines until each launcher
// prints `expected`.
TEST(LaunchedTraining, ShowsTheStepOfRanksOnOtherMachines) {
  const std::string options =
      "--num_machines 2 --num_processes 4 --main_process_ip 127.0.0.1 "
      "--main_process_port " +
      std::to_string(20000 + ::getpid() % 10000);
  const std::string expected[] = {
      "rank 2 on another machine: running, at step 6, ",
      "rank 0 on another machine: running, at step"};
  std::atomic<int> num_satisfied = 0;
  const auto run_machine = [&](int machine) {
    auto command = launch_command(
        options + " --machine_rank " + std::to_string(machine) +
        " $TRAINING stall=3@6");
    command.argv[2] = "exec " + command.argv[2];
    int asked = 0;
    bool satisfied = false;
    command.watch = [=, &expected, &num_satisfied](
                        pid_t pid, const std::string& err) mutable {
      if (!satisfied && err.find(expected[machine]) != std::string::npos) {
        satisfied = true;
        ++num_satisfied;
      }
      if (num_satisfied == 2) {
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

  EXPECT_NE(result.err.find(expected[0]), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("waiting for rank 3"), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find("rank 3 on another machine: running, at step 5"),
      std::string::npos)
      << result.err;
  EXPECT_NE(other.err.find(expected[1]), std::string::npos) << other.err;
}

TEST(LaunchedSource, IsCompiledAgainstThisBuild) {
  CommandOptions command =
      launch_command("--num_processes 2 " ACCELERATE_PROGRAM_SOURCE);
  command.timeout = std::chrono::seconds(150);

  const auto result = run_command(command);

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "2 processes, sum of ranks 1\n");
}

TEST(SelfTest, PrintsItsChecks) {
  CommandOptions command = launch_command("");
  command.argv[2] =
      std::string(ACCELERATE_CLI) + " test --cpu --num_processes 3";

  const auto result = run_command(command);

  if (result.err.find("this installation does not include") !=
      std::string::npos) {
    GTEST_SKIP() << "built without examples";
  }
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      result.out.substr(result.out.find('\n') + 1),
      "ok: every sample goes to exactly one process, in order\n"
      "ok: gather tensors of different sizes\n"
      "ok: reduce to the mean\n"
      "ok: broadcast from the last process\n"
      "ok: gathered data loader batches contain the dataset in order\n"
      "ok: 50 training steps give the same result as in one process\n");
  EXPECT_EQ(result.err, "All checks passed.\n");
}

TEST(LaunchedProgram, ShowsWhichRankItWaitsFor) {
  auto command = launch_command("--num_processes 2 $PROGRAM sleeps");
  command.argv[2] = "exec " + command.argv[2];
  const std::string expected = "waiting for rank 1";
  int asked = 0;
  command.watch = [&](pid_t pid, const std::string& err) {
    if (err.find(expected) != std::string::npos) {
      ::kill(pid, SIGTERM);
      return true;
    }
    // Requests the status about twice a second, until the wait is long enough
    // to be reported.
    if (++asked % 100 == 0) {
      ::kill(pid, SIGQUIT);
    }
    return false;
  };

  const auto result = run_command(command);

  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.err.find(", waiting for rank 1"), std::string::npos)
      << result.err;
}

TEST(LaunchedProgram, RunsOnTwoMachines) {
  // Both machines are simulated on this computer, but connect over the network
  // with a secret.
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
