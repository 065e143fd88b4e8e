// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm alone, with dropout behind where it is asked for.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// LayerNorm over the last dimension, in bf16; RMSNorm without `shift`.
/// Differentiable once.
at::Tensor normalize(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& shift,
    double eps);

/// Dropout whose mask is drawn again in backward, not kept.
at::Tensor dropout(const at::Tensor& x, double rate);

}  // namespace accelerate::cuda
