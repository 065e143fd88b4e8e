// SPDX-License-Identifier: Apache-2.0
// A differentiable linear layer.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// Computes x W^T + b for `x`, [..., D], of any floating-point type. `bias` may
/// be undefined. There are three cases:
///
/// 1. With at most 8 outputs and at most 1024 rows, as in a classifier, the
///    result is fp32.
/// 2. With more outputs or more rows, the result is bf16 if the number of
///    inputs and the number of outputs are multiples of 8.
/// 3. In all other cases, LibTorch's linear layer is used and determines the
///    type of the result.
at::Tensor linear(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace accelerate::cuda
