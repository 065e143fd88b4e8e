// SPDX-License-Identifier: Apache-2.0
// Stand-alone LayerNorm, RMSNorm and dropout.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// Computes LayerNorm over the last dimension, or RMSNorm if `shift` is
/// undefined. Returns bf16. The result can be differentiated once.
at::Tensor normalize(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& shift,
    double eps);

/// Computes dropout. Backward generates the mask again, so the mask is not
/// saved.
at::Tensor dropout(const at::Tensor& x, double rate);

}  // namespace accelerate::cuda
