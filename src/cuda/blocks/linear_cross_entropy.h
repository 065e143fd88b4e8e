// SPDX-License-Identifier: Apache-2.0
// The loss of a language model, computed from its last hidden states.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// Returns the mean cross-entropy of the logits as one fp32 scalar. The logits
/// are `hidden`, [N, D], times the transpose of `weight`, [V, D]. `labels` are
/// [N] in int64; a label of -100 is ignored. If all labels are ignored, the
/// loss is NaN and the gradients are zeros. Differentiable once.
///
/// The logits are computed in chunks of rows, and each chunk is overwritten by
/// its gradients. Forward already computes the gradients of `hidden` and
/// `weight`; backward multiplies these gradients by the gradient of the loss.
///
/// If a label is neither -100 nor in [0, V), the loss is NaN and the gradients
/// are zeros. This call does not wait for the device and therefore does not
/// throw. A later call to this function or to `throw_if_wrong_label` throws
/// `ArgumentError`.
at::Tensor linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels);

/// Throws `ArgumentError` if an earlier call to `linear_cross_entropy` got an
/// invalid label that has not been reported yet.
void throw_if_wrong_label();

}  // namespace accelerate::cuda
