// SPDX-License-Identifier: Apache-2.0
// A Llama layer with RMSNorm, rotary embedding, grouped-query attention, and
// SwiGLU.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Computes a Llama layer. `parameters` are the fp32 weights of 9 layers: first
/// norm, query, key, value, output, second norm, gate, up, down.
///
/// `cos` and `sin` are the rotary embedding, [1 or B, T, head_dim] in fp32.
/// `mask_bias` is added to the attention scores. It is [B, 1, T, T] in bf16 and
/// must include the causal mask. If it is undefined, attention is causal.
/// Returns [B, T, D] in bf16. The result can be differentiated once.
at::Tensor llama_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::vector<at::Tensor>& parameters,
    const LlamaBlockOptions& options);

}  // namespace accelerate::cuda
