// SPDX-License-Identifier: Apache-2.0
// A decoder block with RMSNorm, rotary embedding, grouped-query attention, and
// a gated MLP with SiLU.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Computes the block for `DecoderKind::gated`; see `decoder_block`.
at::Tensor gated_decoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const DecoderBlockOptions& options);

}  // namespace accelerate::cuda
