// SPDX-License-Identifier: Apache-2.0
// Step counters for many parameters, which one operation can advance together.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

// NOTE [Packed step counters]
// The fused kernels read one step counter, a float, for each parameter.
// Parameters that get their first gradient in the same step have counters that
// are views of one tensor. A step that updates all these parameters therefore
// advances their counters with one operation on that tensor. A parameter that
// gets no gradient in a later step keeps its view, but its count then differs
// from the other counts.

/// Returns step counters for `count` parameters. They are views of one tensor,
/// which is filled with zeros.
std::vector<at::Tensor> make_step_counters(
    std::size_t count, c10::Device device);

/// Adds 1 to each counter.
void advance(const std::vector<at::Tensor>& counters);
/// Subtracts `found_inf`, which is 1 if the step was skipped and 0 otherwise,
/// from each counter. A skipped step therefore does not count.
void undo_skipped_step(
    const std::vector<at::Tensor>& counters, const at::Tensor& found_inf);

/// Moves the step counters of each parameter group into one tensor per group.
/// Applies only to this library's AdamW and Adam; does nothing for other
/// optimizers.
void pack_step_counters(torch::optim::Optimizer& optimizer);

}  // namespace accelerate
