// SPDX-License-Identifier: Apache-2.0
// The state tensors of this library's optimizers.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// Returns the state tensors of all parameters, one parameter after the other.
/// If a state tensor does not exist yet or is not used, its element is
/// undefined. For an optimizer from another library, the elements are undefined
/// or missing.
std::vector<at::Tensor> state_tensors(torch::optim::Optimizer& optimizer);

}  // namespace accelerate
