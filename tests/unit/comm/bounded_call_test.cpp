// SPDX-License-Identifier: Apache-2.0
#include "comm/bounded_call.h"

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

#include "support/message_of.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong(60'000);
constexpr milliseconds kShort(20);

TEST(BoundedCall, ReturnsTrueWhenTheCallFinishesInTime) {
  const auto answer = std::make_shared<int>(0);

  const bool returned =
      BoundedCall().returned_within(kLong, [answer] { *answer = 42; });

  EXPECT_TRUE(returned);
  EXPECT_EQ(*answer, 42);
  EXPECT_EQ(answer.use_count(), 1) << "the call still holds its captures";
}

TEST(BoundedCall, RethrowsTheExceptionOfTheCall) {
  EXPECT_EQ(
      message_of<std::runtime_error>([] {
        static_cast<void>(BoundedCall().returned_within(
            kLong, [] { throw std::runtime_error("no such key"); }));
      }),
      "no such key");
}

TEST(BoundedCall, StartsNoSecondCallWhileTheFirstHangs) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto calls = std::make_shared<std::atomic<int>>(0);
  const auto hanging_call = [opened = gate->get_future().share(), calls] {
    ++*calls;
    opened.wait();
  };
  BoundedCall call;

  EXPECT_FALSE(call.returned_within(kShort, hanging_call));
  EXPECT_FALSE(call.returned_within(kShort, hanging_call));
  EXPECT_EQ(*calls, 1) << "a second call started while the first was running";

  gate->set_value();
  EXPECT_TRUE(call.returned_within(kLong, hanging_call));
  EXPECT_EQ(*calls, 2);
}

}  // namespace
}  // namespace accelerate
