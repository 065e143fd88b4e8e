// SPDX-License-Identifier: Apache-2.0
// A linear layer of a few outputs, a classifier's: y = x W^T + b. Parameters
// and results are fp32.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct NarrowLinear {
  static constexpr int kMostOutputs = 8;
  static constexpr std::int64_t kMostRows = 1024;
  Type type = Type::bf16;   ///< Of x and its gradient.
  std::int64_t rows = 0;    ///< N
  std::int64_t width = 0;   ///< D
  int outputs = 0;          ///< E
  const void* x = nullptr;  ///< [N, D], rows `stride` apart.
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
