// SPDX-License-Identifier: Apache-2.0
// A GPT-2 layer with pre-norm, causal attention, and GELU with tanh.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Computes a GPT-2 layer. `parameters` are 12 fp32 tensors: the weight and the
/// bias of first norm, QKV, attention output, second norm, inner linear layer,
/// and outer linear layer. Weight matrices are [inputs, outputs].
///
/// `mask_bias` is added to the attention scores. It is [B, 1, T, T] in bf16 and
/// must include the causal mask. If it is undefined, attention is causal.
/// Returns [B, T, D] in bf16. The result can be differentiated once.
at::Tensor gpt2_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const Gpt2BlockOptions& options);

}  // namespace accelerate::cuda
