// SPDX-License-Identifier: Apache-2.0
// A decoder block with LayerNorm, and GELU with tanh.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Computes the block for `DecoderKind::gelu`; see `decoder_block`.
at::Tensor gelu_decoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const DecoderBlockOptions& options);

}  // namespace accelerate::cuda
