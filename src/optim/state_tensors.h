// SPDX-License-Identifier: Apache-2.0
// The state tensors of this library's optimizers.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// Returns the state tensors of all parameters, one parameter after the other.
/// The list has an undefined tensor for each parameter without state, and for
/// each state tensor that is not used. For an optimizer from another library,
/// the list has no defined tensors.
std::vector<at::Tensor> state_tensors(torch::optim::Optimizer& optimizer);

}  // namespace accelerate
