// SPDX-License-Identifier: Apache-2.0
// The decoder blocks that this library can compute.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// The implementations of decoder blocks.
enum class DecoderKind {
  none,  ///< No implementation computes the block.
  /// LayerNorm, learned positions, as many key heads as query heads, an ungated
  /// MLP with GELU (tanh), biases. The parameters are the fp32 weights and
  /// biases of 6 layers: first norm, QKV, attention output, second norm, inner
  /// linear layer, outer linear layer. Each bias follows its weight. Weight
  /// matrices are [inputs, outputs].
  gelu,
  /// RMSNorm, rotary positions, a gated MLP with SiLU, no biases, no residual
  /// dropout. The parameters are the fp32 weights of 9 layers: first norm,
  /// query, key, value, output, second norm, gate, up, down. Weight matrices
  /// are [outputs, inputs].
  gated,
};

/// Returns the implementation of the block that `options` describes.
DecoderKind decoder_kind(const DecoderBlockOptions& options);

/// See `FusedBlocks::supports_decoder_block`.
bool supports_decoder_block(
    const DecoderBlockOptions& options, std::int64_t head_dim);

/// Computes the decoder block that `options` describes. `DecoderKind` lists the
/// parameters.
///
/// `mask_bias` is added to the attention scores. It is [B, 1, T, T] in bf16 and
/// must include the causal mask. If it is undefined, attention is causal.
/// Returns [B, T, D] in bf16. The result can be differentiated once. Throws
/// `ArgumentError` if no implementation computes the block.
at::Tensor decoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const DecoderBlockOptions& options);

}  // namespace accelerate::cuda
