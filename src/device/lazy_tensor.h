// SPDX-License-Identifier: Apache-2.0
// Tensors whose values are computed only if an operator reads them.
//
//     const at::Tensor logits = lazy_tensor(
//         {8, 1024, 50257}, at::kFloat, hidden.device(),
//         [=] { return at::linear(hidden, weight); });
//     logits.sizes();     // Computes nothing.
//     logits.argmax(-1);  // Computes the values, once.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"

namespace accelerate {

/// Returns a tensor whose values are computed by `compute`. The first operator
/// that gets the tensor calls `compute`, with autograd enabled; this operator
/// and all later operators get the computed tensor instead. If `compute`
/// throws, the operator throws the same error, and the next operator calls
/// `compute` again.
///
/// The lazy tensor has no memory, so taking its data pointer is an error. The
/// lazy tensor is not part of an autograd graph, but the results of operators
/// on it are.
///
/// Thread safety: several threads may read the tensor.
[[nodiscard]] ACCELERATE_API at::Tensor lazy_tensor(
    at::IntArrayRef sizes,
    c10::ScalarType dtype,
    c10::Device device,
    std::function<at::Tensor()> compute);

}  // namespace accelerate
