// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm, with what stands before them in a transformer block:
//
//     sum = residual + dropout(x + bias)
//     y   = norm(sum) * weight + shift
//
// A null `residual`, `bias` or a rate of 0 leaves that part out, so one
// function is the plain norm, the post-norm of BERT and the add-then-norm of
// GPT-2 and Llama.
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
  void* sum = nullptr;    ///< [N, D]; null: not kept. May be `residual`.
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
  const void* sum = nullptr;      ///< [N, D]: forward's, or its x.
  const void* d_extra = nullptr;  ///< [N, D]: gradient of `sum` from elsewhere.
  const float* weight = nullptr;
  const float* mean = nullptr;  ///< Null for RMSNorm.
  const float* rstd = nullptr;
  Dropout dropout;             ///< Forward's.
  void* d_sum = nullptr;       ///< [N, D]: of the residual too. May be `dy`.
  void* dx = nullptr;          ///< [N, D]; null without dropout: it is `d_sum`.
  float* d_weight = nullptr;   ///< [D]
  float* d_shift = nullptr;    ///< [D]; null for RMSNorm.
  float* d_bias = nullptr;     ///< [D]; null where there is no bias.
  float* workspace = nullptr;  ///< `norm_workspace` floats.
};

/// All but `d_weight`, `d_shift` and `d_bias`, whose parts are left in the
/// workspace.
void norm_backward(const NormBackward& work, cudaStream_t stream);

/// These three, in an order of summation that depends on the sizes alone.
/// Nothing in backward waits for them, so they may run on another stream.
void norm_backward_sums(const NormBackward& work, cudaStream_t stream);

std::int64_t norm_workspace(std::int64_t rows, std::int64_t width);

}  // namespace accelerate::cuda::kernels
