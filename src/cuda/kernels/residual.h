// SPDX-License-Identifier: Apache-2.0
// Computes y = residual + dropout(x + bias). Used where no norm follows
// directly.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct Residual {
  Type type = Type::bf16;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const void* x = nullptr;         ///< [N, D]
  const float* bias = nullptr;     ///< [D]; may be null.
  const void* residual = nullptr;  ///< [N, D]; may be null.
  Dropout dropout;
};

/// Computes `y`, which may be the same memory as `x` or `residual`.
void residual_forward(const Residual& work, void* y, cudaStream_t stream);

/// Computes `dx` from `dy`; both may be the same memory. The gradient of the
/// residual is `dy` itself. Only the sizes, the type and the dropout in `work`
/// are used. `workspace` must have `column_sum_workspace(rows, width)` floats
/// and receives the partial sums of the bias gradient. Afterwards, the caller
/// must call `finish_column_sum`, on any stream, to add up the partial sums.
void residual_backward(
    const Residual& work,
    const void* dy,
    void* dx,
    float* workspace,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
