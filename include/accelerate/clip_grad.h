// SPDX-License-Identifier: Apache-2.0
// Limits gradients without waiting for the device.
//
//     const auto norm = accelerate::clip_grad_norm(gradients, 1.0);
#pragma once

#include <vector>

#include "accelerate/export.h"
#include "accelerate/fwd.h"

namespace accelerate {

struct ClipGradNormOptions {
  /// The p of the p-norm; `INFINITY` for the largest absolute value.
  double norm_type = 2.0;
  /// Throws `StateError` when the norm is inf or NaN. Reads from the device.
  bool error_if_nonfinite = false;
};

/// Scales the gradients in place so that the norm of all of them together is
/// at most `max_norm`, and returns the norm they had, as a 0-d tensor.
///
/// Undefined tensors are passed over; without any the norm is 0. Throws
/// `ArgumentError` for a negative `max_norm` or a `norm_type` that is not
/// positive.
ACCELERATE_API Tensor clip_grad_norm(
    const std::vector<Tensor>& gradients,
    double max_norm,
    const ClipGradNormOptions& options = {});

/// The two halves of it, for gradients whose norm is made of several parts.
[[nodiscard]] ACCELERATE_API Tensor
grad_norm(const std::vector<Tensor>& gradients, double norm_type = 2.0);
ACCELERATE_API void clip_grads_with_norm(
    const std::vector<Tensor>& gradients,
    double max_norm,
    const Tensor& total_norm);

/// Clamps each element to [-clip_value, clip_value], in place.
///
/// Throws `ArgumentError` for a negative value.
ACCELERATE_API void clip_grad_value(
    const std::vector<Tensor>& gradients, double clip_value);

}  // namespace accelerate
