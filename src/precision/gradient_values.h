// SPDX-License-Identifier: Apache-2.0
// The dense tensors that hold the elements of gradients, for multi-tensor
// operations.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// Returns one dense tensor for each defined gradient: the gradient itself, or
/// the values of a sparse gradient. A sparse gradient that is not coalesced is
/// first coalesced in place: its values for the same index must be summed
/// before its norm or its largest element can be computed.
std::vector<at::Tensor> gradient_values(
    const std::vector<at::Tensor>& gradients);

/// Groups the tensors by device and type. Groups, and tensors within a group,
/// are in order of first appearance.
std::vector<std::vector<at::Tensor>> by_type(
    const std::vector<at::Tensor>& tensors);

}  // namespace accelerate
