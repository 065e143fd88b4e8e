// SPDX-License-Identifier: Apache-2.0
// A linear layer with few outputs, such as a classifier: y = x W^T + b.
// Parameters and `y` are fp32.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct NarrowLinear {
  static constexpr int kMaxOutputs = 8;
  static constexpr std::int64_t kMaxRows = 1024;
  Type type = Type::bf16;   ///< The type of x and its gradient.
  std::int64_t rows = 0;    ///< N
  std::int64_t width = 0;   ///< D
  int outputs = 0;          ///< E
  const void* x = nullptr;  ///< [N, D], with `stride` elements from row to row.
  std::int64_t stride = 0;
  const float* weight = nullptr;  ///< [E, D]
  const float* bias = nullptr;    ///< [E]; may be null.
};

void narrow_linear(const NarrowLinear& work, float* y, cudaStream_t stream);

struct NarrowLinearGradients {
  const float* dy = nullptr;  ///< [N, E]
  void* dx = nullptr;         ///< [N, D], contiguous.
  float* d_weight = nullptr;  ///< [E, D]
  float* d_bias = nullptr;    ///< [E]; may be null.
};

void narrow_linear_backward(
    const NarrowLinear& work,
    const NarrowLinearGradients& gradients,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
