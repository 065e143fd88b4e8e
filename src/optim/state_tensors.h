// SPDX-License-Identifier: Apache-2.0
// The tensors that an optimizer of ours keeps between steps.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// Of each parameter in turn; undefined for what it does not keep, or does not
/// keep yet. Empty for optimizers that are not ours.
std::vector<at::Tensor> state_tensors(torch::optim::Optimizer& optimizer);

}  // namespace accelerate
