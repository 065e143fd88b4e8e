// SPDX-License-Identifier: Apache-2.0
// y = residual + dropout(x + bias), where no norm follows at once.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct Residual {
  Type type = Type::bf16;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const void* x = nullptr;         ///< [N, D]
  const float* bias = nullptr;     ///< [D]; null: none.
  const void* residual = nullptr;  ///< [N, D]; null: none.
  Dropout dropout;
};

/// `y` may be `x` or `residual`.
void residual_forward(const Residual& work, void* y, cudaStream_t stream);

/// dx from dy (that of the residual is `dy` itself; `dx` may be it too). Of
/// `work`, only sizes, type and dropout count. `workspace`, of
/// `column_sum_workspace(rows, width)` floats, gets the parts of the bias'
/// gradient; `column_sum_parts` adds them up, on any stream.
void residual_backward(
    const Residual& work,
    const void* dy,
    void* dx,
    float* workspace,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
