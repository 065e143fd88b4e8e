// SPDX-License-Identifier: Apache-2.0
// Schedules of which only the device knows yet which steps count.
#include "optim/pending_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "optim/scheduler_context.h"

namespace accelerate {
namespace {

// On a device that lets the host know when it is told to.
struct FakeFlag : SkipFlag {
  explicit FakeFlag(bool skipped)
      : tensor(at::full({1}, skipped ? 1.0 : 0.0, at::kFloat)) {}

  bool has_come() const override { return told; }
  bool value() const override {
    waits += told ? 0 : 1;
    return tensor.item<float>() != 0.0F;
  }
  const at::Tensor& on_device() const override { return tensor; }

  at::Tensor tensor;
  bool told = false;
  mutable int waits = 0;
};

double lr_at(std::int64_t position) {
  return 1.0 / static_cast<double>(1 + position);
}

// A run whose gradients are 1: each step takes the learning rate away. The
// device is the host here.
class PendingStepsTest : public testing::Test {
 protected:
  PendingStepsTest() {
    scheduler.attach(context([this] {
      ADD_FAILURE() << "somebody waited";
      return false;
    }));
  }

  std::shared_ptr<SchedulerContext> context(std::function<bool()> was_skipped) {
    auto result = std::make_shared<SchedulerContext>();
    result->sync_gradients = [this] { return syncs; };
    result->step_was_skipped = std::move(was_skipped);
    result->skipped_later = [this]() -> std::shared_ptr<const SkipFlag> {
      return flags.back();
    };
    return result;
  }

  double step(bool skipped) { return step(skipped, scheduler); }
  // The learning rate that the optimizer used.
  double step(bool skipped, LRScheduler& schedule) {
    weight.mutable_grad() = at::ones({1});
    flags.push_back(std::make_shared<FakeFlag>(skipped));
    // The optimizer is not told of the flag, so that each step shows its rate.
    const double before = weight.item<double>();
    optimizer.step();
    const double used = before - weight.item<double>();
    schedule.step();
    return used;
  }

  int waits() const {
    int all = 0;
    for (const auto& flag : flags) {
      all += flag->waits;
    }
    return all;
  }

  bool syncs = true;
  at::Tensor weight = at::zeros({1}, at::kDouble).requires_grad_();
  SGD optimizer{{weight}, 1.0};
  LambdaLR scheduler{optimizer, [](std::int64_t at) { return lr_at(at); }};
  std::vector<std::shared_ptr<FakeFlag>> flags;
};

TEST_F(PendingStepsTest, TheDeviceKnowsTheRateBeforeTheHost) {
  const std::vector<bool> skipped = {
      false, true, false, false, true, true, false, false};
  std::int64_t position = 0;
  for (const bool one : skipped) {
    EXPECT_NEAR(step(one), lr_at(position), 1e-7) << position;
    position += one ? 0 : 1;
  }
  EXPECT_EQ(waits(), 0);

  EXPECT_EQ(scheduler.last_epoch(), position);
  EXPECT_EQ(scheduler.step_count(), position + 1);
  EXPECT_THAT(scheduler.get_last_lr(), testing::ElementsAre(lr_at(position)));
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), lr_at(position));
  EXPECT_EQ(waits(), 8);
  EXPECT_NEAR(step(false), lr_at(position), 1e-7);
}

TEST_F(PendingStepsTest, WhatHasComeIsTakenIn) {
  std::int64_t position = 0;
  for (int i = 0; i < 20; ++i) {
    const bool skipped = i % 3 == 1;
    EXPECT_NEAR(step(skipped), lr_at(position), 1e-7) << i;
    position += skipped ? 0 : 1;
    if (i >= 2) {
      flags[static_cast<std::size_t>(i) - 2]->told = true;
    }
  }
  EXPECT_EQ(waits(), 0);
  EXPECT_EQ(scheduler.last_epoch(), position);
  EXPECT_EQ(waits(), 2);  // The last two had not been told.
}

TEST_F(PendingStepsTest, MicroStepsCountAsBefore) {
  step(false);
  syncs = false;
  scheduler.step();
  syncs = true;
  step(true);
  EXPECT_EQ(scheduler.last_epoch(), 1);
  EXPECT_EQ(scheduler.step_count(), 3);
}

TEST_F(PendingStepsTest, ARateThatIsSetByHandHolds) {
  step(true);
  optimizer.param_groups()[0].options().set_lr(0.25);
  EXPECT_NEAR(step(false), 0.25, 1e-7);
}

TEST_F(PendingStepsTest, SavedAndLoadedStatesAreSettled) {
  step(false);
  const Json saved = scheduler.state_dict();
  EXPECT_EQ(saved.at("last_epoch").as_integer(), 1);
  step(false);
  step(true);
  scheduler.load_state_dict(saved);
  EXPECT_EQ(scheduler.last_epoch(), 1);
  EXPECT_NEAR(step(false), lr_at(1), 1e-7);
}

TEST_F(PendingStepsTest, AScheduleWithAnEndIsWaitedForThereAlone) {
  const OneCycleLROptions options{
      .max_lr = {1.0}, .total_steps = 6, .cycle_momentum = false};
  SGD plain({at::zeros({1})}, 1.0);
  OneCycleLR expected(plain, options);
  OneCycleLR cycle(optimizer, options);
  int asked = 0;
  cycle.attach(context([&] {
    ++asked;
    return flags.back()->value();
  }));

  const std::vector<bool> skipped = {
      false, true, false, false, true, false, false, true, false, false, false};
  for (std::size_t i = 0; i < skipped.size(); ++i) {
    EXPECT_NEAR(step(skipped[i], cycle), expected.get_last_lr()[0], 1e-7) << i;
    if (!skipped[i] && expected.last_epoch() < 6) {
      expected.step();
    }
    EXPECT_EQ(asked == 0, i < 6) << i;
  }
  EXPECT_EQ(cycle.last_epoch(), 6);
}

TEST_F(PendingStepsTest, TooManyAreWaitedFor) {
  for (std::int64_t i = 0; i < PendingSteps::kMost; ++i) {
    step(i % 2 == 0);
  }
  EXPECT_EQ(waits(), 0);
  step(false);
  EXPECT_EQ(waits(), 1);
  EXPECT_EQ(scheduler.last_epoch(), PendingSteps::kMost / 2 + 1);
}

}  // namespace
}  // namespace accelerate
