// SPDX-License-Identifier: Apache-2.0
#include "comm/wait_limits.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

const Call kGather{"gather", 12};

TEST(WaitLimits, WarnsOnceAndThenTimesOut) {
  std::vector<std::string> warnings;
  const WaitLimits limits{
      .warn_after = milliseconds(1),
      .timeout = milliseconds(40),
      .warn = [&](const std::string& text) { warnings.push_back(text); }};
  Wait wait(kGather, 0, limits);

  const auto text = message_of<DistributedError>([&] {
    for (;;) {
      wait.still_missing({1, 3});
    }
  });

  EXPECT_EQ(
      warnings,
      std::vector<std::string>{
          "gather #12: rank 0 has waited 1 ms for ranks 1, 3; the timeout "
          "is 40 ms"});
  EXPECT_EQ(
      text,
      "gather #12: ranks 1, 3 did not reach this call within 40 ms; rank 0 "
      "stopped waiting");
}

TEST(WaitLimits, ReportsThatTheStoreDoesNotRespond) {
  std::vector<std::string> warnings;
  const WaitLimits limits{
      .warn_after = milliseconds(1),
      .timeout = milliseconds(40),
      .warn = [&](const std::string& text) { warnings.push_back(text); }};
  Wait wait(kGather, 1, limits);

  const auto text = message_of<DistributedError>([&] {
    for (;;) {
      wait.store_unresponsive({0, 2});
    }
  });

  EXPECT_EQ(
      warnings,
      std::vector<std::string>{
          "gather #12: rank 1 has waited 1 ms for ranks 0, 2, and the store "
          "is not responding; the timeout is 40 ms"});
  EXPECT_EQ(
      text,
      "gather #12: ranks 0, 2 did not respond within 40 ms, and the store is "
      "not responding; rank 1 stopped waiting");
}

TEST(WaitLimits, HintsThatAllRanksMustMakeTheSameCalls) {
  const WaitLimits limits{.timeout = milliseconds(0)};
  try {
    Wait(kGather, 2, limits).still_missing({1});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DistributedError& error) {
    EXPECT_EQ(
        error.hint(),
        "check what rank 1 did instead: every rank must make the same "
        "collective calls, so do not call a collective inside `if "
        "(is_main_process())`");
  }
}

TEST(WaitLimits, WritesTheWarningToStderrByDefault) {
  const WaitLimits limits{.warn_after = milliseconds(0)};
  Wait wait(kGather, 2, limits);

  testing::internal::CaptureStderr();
  wait.still_missing({0});
  wait.still_missing({0});

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: gather #12: rank 2 has waited 0 s for rank 0; the timeout is "
      "600 s\n");
}

TEST(WaitLimits, NamesTheRanksThatExited) {
  EXPECT_EQ(
      message_of<DistributedError>(
          [] { Wait(kGather, 0, WaitLimits{}).throw_exited({2}); }),
      "gather #12: rank 0 lost the connection to rank 2: the process exited or "
      "destroyed its "
      "process group");
}

TEST(WaitLimits, EndsImmediatelyWhenTheGroupIsAborted) {
  const std::atomic<bool> aborted = true;
  const WaitLimits limits{.aborted = &aborted};

  EXPECT_EQ(
      message_of<DistributedError>(
          [&] { Wait(kGather, 0, limits).still_missing({2}); }),
      "gather #12: aborted on rank 0 while waiting for rank 2");
}

TEST(WaitLimits, SleepsAtMostUntilTheNextEvent) {
  const WaitLimits soon{
      .warn_after = milliseconds(10), .timeout = milliseconds(20)};

  EXPECT_LE(Wait(kGather, 0, soon).slice(), milliseconds(10));
  EXPECT_EQ(Wait(kGather, 0, WaitLimits{}).slice(), milliseconds(100));
}

TEST(NameDuration, UsesSecondsWhenTheyAreWhole) {
  EXPECT_EQ(name_duration(milliseconds(600'000)), "600 s");
  EXPECT_EQ(name_duration(milliseconds(250)), "250 ms");
  EXPECT_EQ(name_duration(milliseconds(1500)), "1500 ms");
}

}  // namespace
}  // namespace accelerate
