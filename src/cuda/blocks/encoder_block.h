// SPDX-License-Identifier: Apache-2.0
// An encoder block with LayerNorm after each residual addition, and GELU with
// erf.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// See `FusedBlocks::supports_encoder_block`.
bool supports_encoder_block(
    const EncoderBlockOptions& options, std::int64_t head_dim);

/// See `FusedBlocks::supports_unpadding`.
bool supports_unpadding(std::int64_t head_dim);

/// Computes the encoder block that `options` describes. `parameters` are the
/// fp32 weights and biases of 8 layers: query, key, value, attention output,
/// first norm, inner linear layer, outer linear layer, second norm. Each bias
/// follows its weight. Weight matrices are [outputs, inputs].
///
/// `mask_bias` is added to the attention scores. It is [B, 1, T, T] in bf16, or
/// undefined. Returns [B, T, D] in bf16. The result can be differentiated once.
/// Throws `ArgumentError` if the activation is not `gelu_erf`.
at::Tensor encoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const EncoderBlockOptions& options);

}  // namespace accelerate::cuda
