// SPDX-License-Identifier: Apache-2.0
#include "support/run_processes.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

std::string worker() {
  return test_program_path("process_worker");
}

TEST(RunProcesses, ReportsExitCodeAndOutputOfEachRank) {
  const auto results =
      run_processes(2, worker(), {"exit_with", "auto", "1", "1", "7"});

  ASSERT_EQ(results.size(), 2U);
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 7);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.output, "leaving\n");
    EXPECT_GT(result.seconds, 0);
  }
  EXPECT_EQ(describe(results[1]), "rank 1: exit code 7");
}

TEST(RunProcesses, ThrowsTheOutputOfFailedRanks) {
  const auto text = message_of<std::runtime_error>([] {
    run_processes_or_throw(2, worker(), {"exit_with", "auto", "1", "1", "7"});
  });

  EXPECT_EQ(
      text, "rank 0: exit code 7\nleaving\n\nrank 1: exit code 7\nleaving\n\n");
}

TEST(RunProcesses, ReportsTheSignalThatKilledARank) {
  Processes processes(2, worker(), {"wait_forever"});
  processes.wait_for(0, "waiting");
  processes.wait_for(1, "waiting");

  processes.send_signal(1, SIGKILL);
  processes.send_line(0, "go");
  const auto results = processes.wait();

  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_EQ(results[0].output, "waiting\ncontinued\n");
  EXPECT_EQ(describe(results[1]), "rank 1: killed by signal 9 (KILL)");
}

TEST(RunProcesses, KillsAllProcessesAfterTheTimeLimit) {
  pid_t pid = 0;

  const auto text = message_of<std::runtime_error>([&] {
    Processes processes(
        1, worker(), {"wait_forever"}, {.timeout = std::chrono::seconds(5)});
    processes.wait_for(0, "waiting");
    pid = processes.pid(0);
    processes.wait();
  });

  EXPECT_EQ(
      text, "not finished within 5000 ms\n-- rank 0 (running)\nwaiting\n");
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(RunProcesses, ReportsARankThatExitedBeforeItPrintedALine) {
  Processes processes(1, worker(), {"exit_with", "auto", "1", "1", "3"});

  EXPECT_THAT(
      message_of<std::runtime_error>([&] { processes.wait_for(0, "hello"); }),
      HasSubstr("rank 0: exit code 3 before it printed `hello`"));
}

}  // namespace
}  // namespace accelerate
