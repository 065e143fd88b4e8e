// SPDX-License-Identifier: Apache-2.0
// AdamW for many tensors in one pass, in which each element is read and written
// only once.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct AdamWTensor {
  float* parameter = nullptr;
  const void* gradient = nullptr;  ///< See `AdamWArguments::gradient_type`.
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  /// The step count, including this step, as one float in device memory.
  const float* step_at = nullptr;
  void* bf16_copy = nullptr;  ///< A copy that is also updated; may be null.
  std::int64_t size = 0;
};

struct AdamWArguments {
  Type gradient_type = Type::f32;
  /// The learning rate in device memory; if null, `lr` is used. Values that
  /// change between steps are read from device memory, so that a captured graph
  /// uses the current values.
  const float* lr_at = nullptr;
  double lr = 0.0;
  /// Gradients are divided by the float at this address. If null, they are not
  /// divided.
  const float* grad_scale_at = nullptr;
  /// If the float at this address is not zero, nothing is written. May be null.
  const float* found_inf_at = nullptr;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool maximize = false;
};

/// Updates `count` tensors. Launches one kernel for each group of up to 400
/// tensors.
void adamw(
    const AdamWTensor* tensors,
    int count,
    const AdamWArguments& arguments,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
