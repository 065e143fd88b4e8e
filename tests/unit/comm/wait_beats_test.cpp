// SPDX-License-Identifier: Apache-2.0
#include "comm/wait_beats.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "comm/wait_limits.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using testing::ElementsAre;

class WaitBeatsTest : public testing::Test {
 protected:
  WaitBeats of_rank(int rank) {
    return WaitBeats(memory_, memory_->data(), rank);
  }

  std::shared_ptr<SharedMemory> memory_ =
      SharedMemory::create(WaitBeats::bytes(3));
};

TEST_F(WaitBeatsTest, ARankThatWaitsIsNotSilent) {
  const WaitBeats first = of_rank(0);
  EXPECT_THAT(first.silent({1, 2}), ElementsAre(1, 2));

  of_rank(2).beat();

  EXPECT_THAT(first.silent({1, 2}), ElementsAre(1));
}

TEST_F(WaitBeatsTest, IfAllRanksWaitAllAreNamed) {
  of_rank(1).beat();
  of_rank(2).beat();

  EXPECT_THAT(of_rank(0).silent({1, 2}), ElementsAre(1, 2));
}

// Rank 2 has not finished the previous call, because rank 1 was stopped in it.
TEST_F(WaitBeatsTest, AnErrorDoesNotNameARankThatOnlyWaits) {
  of_rank(2).beat();
  WaitLimits limits{.timeout = std::chrono::milliseconds(0)};
  limits.beats = std::make_shared<WaitBeats>(of_rank(0));
  const Call call{"reduce", 4};

  const std::string text = message_of<DistributedError>(
      [&] { Wait(call, 0, limits).still_missing({1, 2}); });

  EXPECT_EQ(
      text,
      "reduce #4: rank 1 did not reach this call within 0 s; rank 0 stopped "
      "waiting");
}

}  // namespace
}  // namespace accelerate
