// SPDX-License-Identifier: Apache-2.0
// A layer of GPT-2: pre-norm, causal, GELU with tanh.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

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
