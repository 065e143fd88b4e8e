// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <fstream>
#include <thread>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "accelerate/launchers.h"
#include "accelerate/operations.h"
#include "accelerate/partial_state.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

TEST(DebugLauncher, RunsTheFunctionInEveryProcess) {
  EXPECT_NO_THROW(debug_launcher(
      [] {
        const PartialState state;
        const auto all =
            gather_object({Json(state.process_index()), Json(::getpid())});
        if (all.size() != 6 || all[1] == all[3] || all[4].as_integer() != 2) {
          throw std::runtime_error(Json(all).dump());
        }
      },
      {.num_processes = 3}));
}

TEST(DebugLauncher, SetsForkLaunched) {
  EXPECT_NO_THROW(debug_launcher([] {
    if (!PartialState().fork_launched()) {
      throw std::runtime_error("fork_launched() is false");
    }
  }));
}

TEST(DebugLauncher, WorksInsideAWorkerOfAnotherLauncher) {
  ::setenv("GROUP_RANK", "7", 1);
  ::setenv("TORCHELASTIC_RUN_ID", "outer", 1);
  ::setenv("TORCHELASTIC_RESTART_COUNT", "4", 1);
  ::setenv("ACCELERATE_STORE_RUN", "outer", 1);
  ::setenv("ACCELERATE_STORE", "127.0.0.1:1", 1);

  EXPECT_NO_THROW(debug_launcher([] {
    const PartialState state;
    state.wait_for_everyone();
    if (state.node_index() != 0) {
      throw std::runtime_error("not on the first machine");
    }
  }));
  ::unsetenv("GROUP_RANK");
}

TEST(DebugLauncher, ReportsTheRankThatFailedFirstAndItsError) {
  const auto text = message_of<DistributedError>([] {
    debug_launcher(
        [] {
          const PartialState state;
          if (state.process_index() == 1) {
            throw ArgumentError("`lr` is -1", "pass a positive number");
          }
          state.wait_for_everyone();
        },
        {.num_processes = 3});
  });

  EXPECT_EQ(
      text,
      "rank 1 failed first (exit code 2); the other 2 ranks were stopped\n"
      "  rank 1 threw: `lr` is -1\nhint: pass a positive number");
}

TEST(DebugLauncher, ReportsTheExitCode) {
  EXPECT_EQ(
      message_of<DistributedError>(
          [] { debug_launcher([] { ::_exit(9); }, {.num_processes = 1}); }),
      "rank 0 failed first (exit code 9)");
}

TEST(DebugLauncher, ReportsTheSignal) {
  EXPECT_EQ(
      message_of<DistributedError>([] {
        debug_launcher([] { ::raise(SIGKILL); }, {.num_processes = 1});
      }),
      "rank 0 failed first (killed by signal 9 (KILL))");
}

TEST(DebugLauncher, ReportsAnExceptionNotDerivedFromStdException) {
  EXPECT_THAT(
      message_of<DistributedError>(
          [] { debug_launcher([] { throw 1; }, {.num_processes = 1}); }),
      HasSubstr("rank 0 threw: an exception that does not derive from "
                "std::exception"));
}

TEST(DebugLauncher, FailsAfterTheTimeout) {
  EXPECT_EQ(
      message_of<DistributedError>([] {
        debug_launcher(
            [] { ::pause(); },
            {.num_processes = 2, .timeout = std::chrono::milliseconds(200)});
      }),
      "2 of 2 processes did not exit within 200 ms");
}

TEST(DebugLauncher, NeedsAProcessWithoutAState) {
  const PartialState state;

  EXPECT_EQ(
      message_of<StateError>([] { debug_launcher([] {}); }),
      "this process already has a PartialState, which its children cannot "
      "share");
  PartialState::reset();
}

TEST(DebugLauncher, NeedsAProcessWithoutThreads) {
  std::jthread other([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::yield();
    }
  });

  EXPECT_EQ(
      message_of<StateError>([] { debug_launcher([] {}); }),
      "this process has 2 threads, so it cannot be forked safely");
}

}  // namespace
}  // namespace accelerate
