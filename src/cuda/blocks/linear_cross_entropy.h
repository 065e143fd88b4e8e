// SPDX-License-Identifier: Apache-2.0
// The loss of a language model from its last hidden states.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// The mean of the cross-entropy of hidden [N, D] times the transposed weight
/// [V, D], as one fp32 scalar. Labels ([N], int64) outside [0, V) do not count;
/// when none counts the loss is 0.
///
/// Logits are made for some rows at a time and turn into their gradients where
/// they lie; the gradients of both factors are complete when forward ends, and
/// backward multiplies them by the loss' own. Differentiable once.
at::Tensor linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels);

}  // namespace accelerate::cuda
