// SPDX-License-Identifier: Apache-2.0
// A linear layer with its gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// x W^T + b for x [..., D] in any floating type; `bias` may be undefined. In
/// bf16; a few outputs for a few rows, a classifier's, in fp32.
at::Tensor linear(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace accelerate::cuda
