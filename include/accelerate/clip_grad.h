// SPDX-License-Identifier: Apache-2.0
// Gradient clipping without waiting for the device.
//
//     const auto norm = accelerate::clip_grad_norm(gradients, 1.0);
#pragma once

#include <vector>

#include "accelerate/export.h"
#include "accelerate/fwd.h"

namespace accelerate {

struct ClipGradNormOptions {
  /// The p of the p-norm. With `INFINITY`, the norm is the largest absolute
  /// value.
  double norm_type = 2.0;
  /// Whether to throw `StateError` when the norm is inf or NaN. This check
  /// waits for the device.
  bool error_if_nonfinite = false;
};

/// Scales the gradients in place so that their total norm is at most
/// `max_norm`. Returns the norm before scaling, as a 0-d tensor.
///
/// Skips undefined tensors; the norm of an empty list is 0. Throws
/// `ArgumentError` for a negative `max_norm` or a `norm_type` that is not
/// positive.
ACCELERATE_API Tensor clip_grad_norm(
    const std::vector<Tensor>& gradients,
    double max_norm,
    const ClipGradNormOptions& options = {});

/// The two steps of `clip_grad_norm`, for gradients whose norm is combined from
/// several parts: `grad_norm` returns the norm, and `clip_grads_with_norm`
/// scales the gradients.
[[nodiscard]] ACCELERATE_API Tensor
grad_norm(const std::vector<Tensor>& gradients, double norm_type = 2.0);
ACCELERATE_API void clip_grads_with_norm(
    const std::vector<Tensor>& gradients,
    double max_norm,
    const Tensor& total_norm);

/// Clamps each element of the gradients to [-clip_value, clip_value], in place.
///
/// Throws `ArgumentError` for a negative `clip_value`.
ACCELERATE_API void clip_grad_value(
    const std::vector<Tensor>& gradients, double clip_value);

}  // namespace accelerate
