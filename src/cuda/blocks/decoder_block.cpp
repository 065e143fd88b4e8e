// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/decoder_block.h"

#include "accelerate/error.h"
#include "cuda/blocks/attention.h"
#include "cuda/blocks/gated_decoder_block.h"
#include "cuda/blocks/gelu_decoder_block.h"

namespace accelerate::cuda {

DecoderKind decoder_kind(const DecoderBlockOptions& options) {
  if (options.norm == NormKind::layer_norm &&
      options.activation == ActivationKind::gelu_tanh &&
      options.positions == PositionKind::learned && !options.has_gated_mlp &&
      options.has_biases && options.query_heads == options.key_heads) {
    return DecoderKind::gelu;
  }
  if (options.norm == NormKind::rms_norm &&
      options.activation == ActivationKind::silu &&
      options.positions == PositionKind::rotary && options.has_gated_mlp &&
      !options.has_biases && options.residual_dropout == 0.0) {
    return DecoderKind::gated;
  }
  return DecoderKind::none;
}

bool supports_decoder_block(
    const DecoderBlockOptions& options, std::int64_t head_dim) {
  return decoder_kind(options) != DecoderKind::none && supports_heads(head_dim);
}

at::Tensor decoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const DecoderBlockOptions& options) {
  switch (decoder_kind(options)) {
    case DecoderKind::gelu:
      return gelu_decoder_block(x_BTD, mask_bias, parameters, options);
    case DecoderKind::gated:
      return gated_decoder_block(x_BTD, mask_bias, parameters, options);
    case DecoderKind::none:
      break;
  }
  throw ArgumentError(
      "libaccelerate_cuda.so has no decoder block with these options",
      "call `supports_decoder_block` first, and use the reference path if it "
      "returns false");
}

}  // namespace accelerate::cuda
