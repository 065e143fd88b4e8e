// SPDX-License-Identifier: Apache-2.0
// Step counters of many parameters that advance in one operation.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

// NOTE [Joint counters]
// The fused kernels read one float per parameter. The counters of parameters
// that begin together are views of one tensor, so that a step in which all of
// them take part advances one tensor, not one per parameter. A parameter that
// is left out of a step has its own number from then on, still in its place.

/// Counters for `count` parameters: views of one tensor of zeros.
std::vector<at::Tensor> make_counters(std::size_t count, c10::Device device);

/// Adds 1 to each counter.
void advance(const std::vector<at::Tensor>& counters);
/// Subtracts a flag from each: takes a step back if it did not happen.
void take_back(
    const std::vector<at::Tensor>& counters, const at::Tensor& found_inf);

/// Joins the counters of each group of an AdamW or Adam of ours; does nothing
/// with other optimizers.
void join_counters(torch::optim::Optimizer& optimizer);

}  // namespace accelerate
