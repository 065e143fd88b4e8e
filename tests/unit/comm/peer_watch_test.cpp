// SPDX-License-Identifier: Apache-2.0
#include "comm/peer_watch.h"

#include <chrono>
#include <future>

#include <gtest/gtest.h>

namespace accelerate {
namespace {

using std::chrono::seconds;

struct TwoRanks {
  std::shared_ptr<SharedMemory> mine = SharedMemory::create(64);
  std::shared_ptr<SharedMemory> theirs = SharedMemory::open(mine->address());

  TwoRanks() {
    mine->hold_presence(0);
    theirs->hold_presence(1);
  }
};

TEST(PeerWatch, EndsTheDevicesWorkWhenAPeerIsGone) {
  TwoRanks ranks;
  std::promise<void> aborted;
  const PeerWatch watch(ranks.mine, 0, 2, [&] { aborted.set_value(); });

  ranks.theirs.reset();

  EXPECT_EQ(
      aborted.get_future().wait_for(seconds(20)), std::future_status::ready);
  EXPECT_TRUE(watch.has_aborted());
}

TEST(PeerWatch, LeavesTheLivingAlone) {
  TwoRanks ranks;
  bool aborted = false;
  {
    const PeerWatch watch(ranks.mine, 0, 2, [&] { aborted = true; });
    EXPECT_FALSE(watch.has_aborted());
  }
  EXPECT_FALSE(aborted);
}

TEST(PeerWatch, BetweenHostsNobodyIsWatched) {
  const PeerWatch watch(nullptr, 0, 2, [] { FAIL(); });

  EXPECT_FALSE(watch.has_aborted());
}

}  // namespace
}  // namespace accelerate
