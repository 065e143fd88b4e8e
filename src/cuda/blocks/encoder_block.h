// SPDX-License-Identifier: Apache-2.0
// A BERT layer with post-norm and GELU with erf.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Computes a BERT layer. `parameters` are 16 fp32 tensors: the weight and the
/// bias of query, key, value, attention output, first norm, inner linear layer,
/// outer linear layer, and second norm.
///
/// `mask_bias` is added to the attention scores. It is [B, 1, T, T] in bf16, or
/// undefined. Returns [B, T, D] in bf16. The result can be differentiated once.
at::Tensor encoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const EncoderBlockOptions& options);

}  // namespace accelerate::cuda
