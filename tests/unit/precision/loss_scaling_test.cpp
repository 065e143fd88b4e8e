// SPDX-License-Identifier: Apache-2.0
#include "accelerator/loss_scaling.h"

#include <cmath>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace accelerate {
namespace {

// A backward whose gradient is `value`, as the scaler sees it.
void step(LossScaling& scaling, const at::Tensor& parameter, double value) {
  scaling.begin_backward({});
  parameter.mutable_grad() = at::full({2}, value);
  scaling.finish({parameter});
}

// The scale is adjusted when the next backward begins; a run that is resumed
// in between must have the same.
TEST(LossScaling, WhatIsSavedIsTheScaleOfTheNextStep) {
  const GradScalerKwargs kwargs{.init_scale = 1024, .growth_interval = 3};
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  const double gradients[] = {1, 1, 1, INFINITY, 1, 1};
  for (int stop = 0; stop <= 6; ++stop) {
    LossScaling whole(kwargs, c10::kCPU);
    LossScaling first(kwargs, c10::kCPU);
    LossScaling second(kwargs, c10::kCPU);
    for (int i = 0; i < 6; ++i) {
      step(whole, parameter, gradients[i]);
      if (i == stop) {
        first.settle();
        second.scaler()->load_state_dict(first.scaler()->state_dict());
      }
      step(i < stop ? first : second, parameter, gradients[i]);
    }
    whole.settle();
    LossScaling& last = stop == 6 ? first : second;
    last.settle();
    EXPECT_EQ(last.scaler()->state_dict(), whole.scaler()->state_dict())
        << "stopped after " << stop;
  }
}

TEST(LossScaling, SettlesAStepOnce) {
  LossScaling scaling({.init_scale = 1024}, c10::kCPU);
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  step(scaling, parameter, INFINITY);

  scaling.settle();
  scaling.settle();
  scaling.begin_backward({});

  EXPECT_EQ(scaling.scaler()->get_scale(), 512);
  EXPECT_TRUE(scaling.step_was_skipped());
}

}  // namespace
}  // namespace accelerate
