// SPDX-License-Identifier: Apache-2.0
#include "training/loss_scaling.h"

#include <cmath>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace accelerate {
namespace {

// Runs a backward pass after which the scaler sees the gradient `value`.
void step(LossScaling& scaling, const at::Tensor& parameter, double value) {
  scaling.begin_backward({});
  parameter.mutable_grad() = at::full({2}, value);
  scaling.finish({parameter});
}

// The scale is adjusted when the next backward pass begins. A run that is saved
// and resumed in between must use the same scale.
TEST(LossScaling, SavesTheScaleOfTheNextStep) {
  const GradScalerKwargs kwargs{.init_scale = 1024, .growth_interval = 3};
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  const double gradients[] = {1, 1, 1, INFINITY, 1, 1};
  for (int stop = 0; stop <= 6; ++stop) {
    LossScaling uninterrupted(kwargs, c10::kCPU);
    LossScaling first(kwargs, c10::kCPU);
    LossScaling second(kwargs, c10::kCPU);
    for (int i = 0; i < 6; ++i) {
      step(uninterrupted, parameter, gradients[i]);
      if (i == stop) {
        first.update_scale();
        second.scaler()->load_state_dict(first.scaler()->state_dict());
      }
      step(i < stop ? first : second, parameter, gradients[i]);
    }
    uninterrupted.update_scale();
    LossScaling& last = stop == 6 ? first : second;
    last.update_scale();
    EXPECT_EQ(last.scaler()->state_dict(), uninterrupted.scaler()->state_dict())
        << "stopped after " << stop;
  }
}

TEST(LossScaling, UpdatesTheScaleOncePerStep) {
  LossScaling scaling({.init_scale = 1024}, c10::kCPU);
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  step(scaling, parameter, INFINITY);

  scaling.update_scale();
  scaling.update_scale();
  scaling.begin_backward({});

  EXPECT_EQ(scaling.scaler()->get_scale(), 512);
  EXPECT_TRUE(scaling.step_was_skipped());
}

}  // namespace
}  // namespace accelerate
