// SPDX-License-Identifier: Apache-2.0
// A differentiable linear layer.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// Computes x W^T + b for `x`, [..., D], of any floating-point type. `bias` may
/// be undefined. With at most 8 outputs and 1024 rows, as in a classifier, the
/// result is fp32. Otherwise, it is bf16, unless the number of inputs or
/// outputs is not a multiple of 8; then LibTorch's linear layer is used.
at::Tensor linear(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace accelerate::cuda
