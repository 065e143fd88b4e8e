// SPDX-License-Identifier: Apache-2.0
// Programs that start processes with `debug_launcher`.
#include <csignal>

#include <gtest/gtest.h>

#include "support/run_processes.h"

namespace accelerate {
namespace {

// The children inherit the pipe of their parent's output, so `wait` returns
// only when they have exited, too.
TEST(DebugLauncherOfAProcess, KillsItsChildrenWhenItIsKilled) {
  Processes processes(
      1,
      test_program_path("process_worker"),
      {"launches"},
      {.timeout = std::chrono::seconds(30)});
  processes.wait_for(0, "child\nchild\n");

  processes.send_signal(0, SIGKILL);
  const auto results = processes.wait();

  EXPECT_EQ(describe(results[0]), "rank 0: killed by signal 9 (KILL)");
}

TEST(LoggerOfManyProcesses, LogsOnceInOrderOrOnEveryRank) {
  const auto results =
      run_processes(1, test_program_path("process_worker"), {"logs"});

  EXPECT_EQ(results[0].exit_code, 0);
  const std::string& text = results[0].output;
  const std::string order =
      "WARNING test: [RANK 0] in order\n"
      "WARNING test: [RANK 1] in order\n"
      "WARNING test: [RANK 2] in order\n";
  const std::string zero = "WARNING test: [RANK 0] last\n";
  const std::string two = "WARNING test: [RANK 2] last\n";
  const std::string once = "WARNING test: [RANK 0] once\n";
  EXPECT_TRUE(
      text == once + order + zero + two || text == once + order + two + zero)
      << text;
}

}  // namespace
}  // namespace accelerate
