// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_monitor.h"

#include <chrono>
#include <future>

#include <gtest/gtest.h>

namespace accelerate {
namespace {

using std::chrono::seconds;

struct TwoRanks {
  std::shared_ptr<SharedMemory> own = SharedMemory::create(64);
  std::shared_ptr<SharedMemory> other = SharedMemory::open(own->address());

  TwoRanks() {
    own->hold_presence(0);
    other->hold_presence(1);
  }
};

TEST(RankMonitor, AbortsWhenAnotherRankHasExited) {
  TwoRanks ranks;
  std::promise<void> aborted;
  const RankMonitor monitor(ranks.own, 0, 2, [&] { aborted.set_value(); });

  ranks.other.reset();

  EXPECT_EQ(
      aborted.get_future().wait_for(seconds(20)), std::future_status::ready);
  EXPECT_TRUE(monitor.has_aborted());
}

TEST(RankMonitor, DoesNotAbortWhileAllRanksAreAlive) {
  TwoRanks ranks;
  bool aborted = false;
  {
    const RankMonitor monitor(ranks.own, 0, 2, [&] { aborted = true; });
    EXPECT_FALSE(monitor.has_aborted());
  }
  EXPECT_FALSE(aborted);
}

TEST(RankMonitor, MonitorsNoRankWithoutSharedMemory) {
  const RankMonitor monitor(nullptr, 0, 2, [] { FAIL(); });

  EXPECT_FALSE(monitor.has_aborted());
}

}  // namespace
}  // namespace accelerate
