// SPDX-License-Identifier: Apache-2.0
// What a fused kernel takes: lists of tensors that agree in everything.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// Parameters with gradients, all of one device and type.
///
/// The kernels walk raw memory, element by element, without looking at
/// strides: whatever lies otherwise is replaced by a copy that does not.
struct StepTensors {
  std::vector<at::Tensor> parameters;  ///< The keys of the state.
  std::vector<at::Tensor> values;      ///< What the kernel updates.
  std::vector<at::Tensor> gradients;

  /// Brings values that had to be copied back into their parameters.
  void write_back() const;
};

/// The parameters of a group that have a gradient, by device and type; those
/// with a sparse gradient are left out and appended to `sparse`.
std::vector<StepTensors> collect(
    const torch::optim::OptimizerParamGroup& group,
    std::vector<at::Tensor>& sparse);

/// `tensor`, or a copy of it with the type, device and memory layout of `like`.
at::Tensor laid_out_like(const at::Tensor& like, const at::Tensor& tensor);

}  // namespace accelerate
