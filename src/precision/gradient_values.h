// SPDX-License-Identifier: Apache-2.0
// Gradients as the dense tensors that multi-tensor operations take.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// The tensors with the elements of each gradient that is defined: the
/// gradient itself, or the values of a sparse one. A sparse gradient with
/// repeated indices is coalesced in place, because neither its norm nor its
/// largest element can be seen before.
std::vector<at::Tensor> gradient_values(
    const std::vector<at::Tensor>& gradients);

/// Tensors of one device and type each, in order of appearance.
std::vector<std::vector<at::Tensor>> by_type(
    const std::vector<at::Tensor>& tensors);

}  // namespace accelerate
