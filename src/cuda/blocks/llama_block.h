// SPDX-License-Identifier: Apache-2.0
// A layer of Llama: RMSNorm, rotary positions, shared keys, SwiGLU.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// The first norm, query, key, value, output, the second norm, gate, up, down:
/// 9 fp32 parameters, no biases.
///
/// `cos` and `sin` are [1 or B, T, head width] in fp32. `mask_bias`: as in
/// `gpt2_block`. Returns [B, T, D] in bf16, differentiable once.
at::Tensor llama_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::vector<at::Tensor>& parameters,
    const LlamaBlockOptions& options);

}  // namespace accelerate::cuda
