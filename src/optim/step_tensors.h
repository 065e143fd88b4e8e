// SPDX-License-Identifier: Apache-2.0
// The lists of tensors that a fused optimizer kernel takes.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// Parameters that have gradients. All are on the same device and have the same
/// type.
///
/// The kernels process memory element by element and ignore strides. Therefore,
/// a tensor whose memory layout is not suitable is replaced by a copy.
struct StepTensors {
  std::vector<at::Tensor> parameters;  ///< The keys of the optimizer's state.
  std::vector<at::Tensor> values;      ///< The tensors that the kernel updates.
  std::vector<at::Tensor> gradients;

  /// Copies the updated values back to each parameter whose value is a copy.
  void write_back() const;
};

/// Collects the parameters in `group` that have a gradient, grouped by device
/// and type. Parameters with a sparse gradient are appended to `sparse`
/// instead. Throws `UnsupportedError` if a parameter is not of a floating-point
/// type.
std::vector<StepTensors> collect(
    const torch::optim::OptimizerParamGroup& group,
    std::vector<at::Tensor>& sparse);

/// Returns `tensor` if it has the same type, device and memory layout as
/// `like`. Otherwise, returns a copy of `tensor` with the type, device and
/// memory layout of `like`.
at::Tensor laid_out_like(const at::Tensor& like, const at::Tensor& tensor);

}  // namespace accelerate
