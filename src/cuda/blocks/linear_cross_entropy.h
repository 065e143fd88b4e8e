// SPDX-License-Identifier: Apache-2.0
// The loss of a language model from its last hidden states.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// The mean of the cross-entropy of hidden [N, D] times the transposed weight
/// [V, D], as one fp32 scalar. Labels are [N], int64; those of -100 do not
/// count. Where none counts the loss is nan, its gradients zeros.
///
/// Logits are made for some rows at a time and turn into their gradients where
/// they lie; the gradients of both factors are complete when forward ends, and
/// backward multiplies them by the loss' own. Differentiable once.
/// A label that is neither -100 nor in [0, V) makes the loss nan and its
/// gradients zeros, and the next call that sees it throws: one of this function
/// or of `refuse_wrong_label`. The device is not waited for.
at::Tensor linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels);

/// Throws `ArgumentError` for a label that a loss has met and that no call has
/// been told of yet.
void refuse_wrong_label();

}  // namespace accelerate::cuda
