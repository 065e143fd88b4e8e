// SPDX-License-Identifier: Apache-2.0
// A layer of BERT: post-norm, GELU with erf.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Weight and bias of query, key, value, attention's output, its norm, the
/// inner and the outer product, and their norm: 16 fp32 parameters.
///
/// `mask_bias` is added to attention's scores: [B, 1, T, T] in bf16, or
/// undefined. Returns [B, T, D] in bf16, differentiable once.
at::Tensor encoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const EncoderBlockOptions& options);

}  // namespace accelerate::cuda
