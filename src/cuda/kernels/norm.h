// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm, fused with the operations that precede a norm in a
// transformer block:
//
//     sum = residual + dropout(x + bias)
//     y   = norm(sum) * weight + shift
//
// If `residual` or `bias` is null, it is not added. If the dropout rate is 0,
// there is no dropout. The same function can therefore compute a plain norm,
// the post-norm of encoder blocks, and the add-then-norm of decoder blocks.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct NormForward {
  Type type = Type::bf16;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const void* x = nullptr;         ///< [N, D]
  const float* bias = nullptr;     ///< [D]
  const void* residual = nullptr;  ///< [N, D]
  Dropout dropout;
  const float* weight = nullptr;  ///< [D]
  const float* shift = nullptr;   ///< [D]; null for RMSNorm.
  bool is_rms = false;
  float eps = 1e-5F;
  void* sum = nullptr;    ///< [N, D]; may be null or equal to `residual`.
  void* y = nullptr;      ///< [N, D]
  float* mean = nullptr;  ///< [N]; unused by RMSNorm.
  float* rstd = nullptr;  ///< [N]
};

void norm_forward(const NormForward& work, cudaStream_t stream);

struct NormBackward {
  Type type = Type::bf16;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const void* dy = nullptr;       ///< [N, D]
  const void* sum = nullptr;      ///< [N, D]: the input of the norm.
  const void* d_extra = nullptr;  ///< [N, D]: added to `d_sum`; may be null.
  const float* weight = nullptr;
  const float* mean = nullptr;  ///< Null for RMSNorm.
  const float* rstd = nullptr;
  Dropout dropout;  ///< The same as in forward.
  /// [N, D]: the gradient of `sum`, which is also the gradient of the residual.
  /// May be the same memory as `dy`.
  void* d_sum = nullptr;
  /// [N, D]: the gradient of `x`. Null without dropout; the gradient of `x` is
  /// then `d_sum`.
  void* dx = nullptr;
  float* d_weight = nullptr;   ///< [D]
  float* d_shift = nullptr;    ///< [D]; null for RMSNorm.
  float* d_bias = nullptr;     ///< [D]; null if there is no bias.
  float* workspace = nullptr;  ///< `norm_workspace(rows, width)` floats.
};

/// Computes `d_sum` and `dx`. Writes the partial sums of `d_weight`, `d_shift`
/// and `d_bias` to the workspace; `norm_backward_sums` adds them up.
void norm_backward(const NormBackward& work, cudaStream_t stream);

/// Computes `d_weight`, `d_shift` and `d_bias` from the workspace that
/// `norm_backward` has filled. The order of summation depends only on the
/// sizes. Nothing else in backward needs these three gradients, so this
/// function may run on another stream.
void norm_backward_sums(const NormBackward& work, cudaStream_t stream);

/// Returns the number of floats in `NormBackward::workspace`.
std::int64_t norm_workspace(std::int64_t rows, std::int64_t width);

}  // namespace accelerate::cuda::kernels
