// SPDX-License-Identifier: Apache-2.0
// AdamW over many tensors in one pass: each byte is read once, written once.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct AdamWTensor {
  float* parameter = nullptr;
  const void* gradient = nullptr;  ///< Of `AdamWArguments::gradient_type`.
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  /// Steps so far, this one included, on the device.
  const float* step_at = nullptr;
  void* shadow = nullptr;  ///< A bf16 copy to refresh; may be null.
  std::int64_t size = 0;
};

struct AdamWArguments {
  Type gradient_type = Type::f32;
  /// Values that change from step to step are read on the device, where they
  /// are given there, so that a captured graph follows a schedule.
  const float* lr_at = nullptr;
  double lr = 0.0;
  /// Gradients are divided by it; null: by one.
  const float* grad_scale_at = nullptr;
  /// Not zero: nothing is written.
  const float* found_inf_at = nullptr;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool maximize = false;
};

/// Queues one launch for every 400 tensors.
void adamw(
    const AdamWTensor* tensors,
    int count,
    const AdamWArguments& arguments,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
