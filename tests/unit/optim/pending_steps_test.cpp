// SPDX-License-Identifier: Apache-2.0
// Tests schedules while the CPU does not yet know which steps were skipped.
#include "optim/pending_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "optim/scheduler_context.h"

namespace accelerate {
namespace {

// A flag whose copy to host memory completes when the test sets `ready`.
struct FakeFlag : SkipFlag {
  explicit FakeFlag(bool skipped)
      : tensor(at::full({1}, skipped ? 1.0 : 0.0, at::kFloat)) {}

  bool is_ready() const override { return ready; }
  bool value() const override {
    waits += ready ? 0 : 1;
    return tensor.item<float>() != 0.0F;
  }
  const at::Tensor& on_device() const override { return tensor; }

  at::Tensor tensor;
  bool ready = false;
  mutable int waits = 0;
};

double lr_at(std::int64_t position) {
  return 1.0 / static_cast<double>(1 + position);
}

// All gradients are 1, so each step subtracts the learning rate. The CPU takes
// the place of the device.
class PendingStepsTest : public testing::Test {
 protected:
  PendingStepsTest() {
    scheduler.attach(context([this] {
      ADD_FAILURE() << "the scheduler waited for the device";
      return false;
    }));
  }

  std::shared_ptr<SchedulerContext> context(std::function<bool()> was_skipped) {
    auto result = std::make_shared<SchedulerContext>();
    result->sync_gradients = [this] { return syncs; };
    result->step_was_skipped = std::move(was_skipped);
    result->deferred_skip_flag = [this]() -> std::shared_ptr<const SkipFlag> {
      return flags.back();
    };
    return result;
  }

  double step(bool skipped) { return step(skipped, scheduler); }
  // Returns the learning rate that the optimizer used.
  double step(bool skipped, LRScheduler& schedule) {
    weight.mutable_grad() = at::ones({1});
    flags.push_back(std::make_shared<FakeFlag>(skipped));
    // The optimizer does not have the flag, so it never skips a step.
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

TEST_F(PendingStepsTest, TheDeviceSelectsTheRateWithoutWaiting) {
  const std::vector<bool> skipped = {
      false, true, false, false, true, true, false, false};
  std::int64_t position = 0;
  for (const bool was_skipped : skipped) {
    EXPECT_NEAR(step(was_skipped), lr_at(position), 1e-7) << position;
    position += was_skipped ? 0 : 1;
  }
  EXPECT_EQ(waits(), 0);

  EXPECT_EQ(scheduler.last_epoch(), position);
  EXPECT_EQ(scheduler.step_count(), position + 1);
  EXPECT_THAT(scheduler.get_last_lr(), testing::ElementsAre(lr_at(position)));
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), lr_at(position));
  EXPECT_EQ(waits(), 8);
  EXPECT_NEAR(step(false), lr_at(position), 1e-7);
}

TEST_F(PendingStepsTest, ReadyFlagsAreResolvedWithoutWaiting) {
  std::int64_t position = 0;
  for (int i = 0; i < 20; ++i) {
    const bool skipped = i % 3 == 1;
    EXPECT_NEAR(step(skipped), lr_at(position), 1e-7) << i;
    position += skipped ? 0 : 1;
    if (i >= 2) {
      flags[static_cast<std::size_t>(i) - 2]->ready = true;
    }
  }
  EXPECT_EQ(waits(), 0);
  EXPECT_EQ(scheduler.last_epoch(), position);
  EXPECT_EQ(waits(), 2);  // The last two flags were not ready.
}

TEST_F(PendingStepsTest, MicroStepsAreStillCounted) {
  step(false);
  syncs = false;
  scheduler.step();
  syncs = true;
  step(true);
  EXPECT_EQ(scheduler.last_epoch(), 1);
  EXPECT_EQ(scheduler.step_count(), 3);
}

TEST_F(PendingStepsTest, AManuallySetRateIsKept) {
  step(true);
  optimizer.param_groups()[0].options().set_lr(0.25);
  EXPECT_NEAR(step(false), 0.25, 1e-7);
}

TEST_F(PendingStepsTest, SavingAndLoadingResolvesPendingSteps) {
  step(false);
  const Json saved = scheduler.state_dict();
  EXPECT_EQ(saved.at("last_epoch").as_integer(), 1);
  step(false);
  step(true);
  scheduler.load_state_dict(saved);
  EXPECT_EQ(scheduler.last_epoch(), 1);
  EXPECT_NEAR(step(false), lr_at(1), 1e-7);
}

TEST_F(PendingStepsTest, AScheduleWithAnEndWaitsOnlyNearItsEnd) {
  const OneCycleLROptions options{
      .max_lr = {1.0}, .total_steps = 6, .cycle_momentum = false};
  SGD plain({at::zeros({1})}, 1.0);
  OneCycleLR expected(plain, options);
  OneCycleLR cycle(optimizer, options);
  int reads = 0;
  cycle.attach(context([&] {
    ++reads;
    return flags.back()->value();
  }));

  const std::vector<bool> skipped = {
      false, true, false, false, true, false, false, true, false, false, false};
  for (std::size_t i = 0; i < skipped.size(); ++i) {
    EXPECT_NEAR(step(skipped[i], cycle), expected.get_last_lr()[0], 1e-7) << i;
    if (!skipped[i] && expected.last_epoch() < 6) {
      expected.step();
    }
    EXPECT_EQ(reads == 0, i < 6) << i;
  }
  EXPECT_EQ(cycle.last_epoch(), 6);
}

TEST_F(PendingStepsTest, WaitsWhenTooManyStepsArePending) {
  for (std::int64_t i = 0; i < PendingSteps::kMaxPending; ++i) {
    step(i % 2 == 0);
  }
  EXPECT_EQ(waits(), 0);
  step(false);
  EXPECT_EQ(waits(), 1);
  EXPECT_EQ(scheduler.last_epoch(), PendingSteps::kMaxPending / 2 + 1);
}

}  // namespace
}  // namespace accelerate
