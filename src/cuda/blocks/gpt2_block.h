// SPDX-License-Identifier: Apache-2.0
// A layer of GPT-2: pre-norm, causal, GELU with tanh.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

struct Gpt2BlockOptions {
  std::int64_t heads = 1;
  double layer_norm_eps = 1e-5;
  double attention_dropout = 0.0;  ///< Of this call: 0 unless training.
  double residual_dropout = 0.0;
  double attention_scale = 1.0;
};

/// Weight and bias of the first norm, of queries, keys and values as one, of
/// attention's output, the second norm, the inner and the outer product: 12
/// fp32 parameters, matrices as [in, out].
///
/// `mask_bias`: as in `encoder_block`, and then it says what is causal itself;
/// undefined: plainly causal. Returns [B, T, D] in bf16, differentiable once.
at::Tensor gpt2_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const Gpt2BlockOptions& options);

}  // namespace accelerate::cuda
