// SPDX-License-Identifier: Apache-2.0
// The C++ counterpart of a Python `nn.Module`.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/autocast_module.h"
#include "torch.h"

namespace accelerate::python {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

/// A tree of `torch::nn::Module`s that shares the tensors of a Python module,
/// under the same names. It has no `forward`. It derives from `AutocastModule`
/// so that `prepare` does not enable autocast for the whole thread: the Python
/// module's `forward` applies autocast itself (see `accelerate_cpp.modules`).
class PythonModule : public torch::nn::Module, public AutocastModule {
 public:
  /// The names are full names with dots, such as `encoder.0.weight`.
  PythonModule(
      const NamedTensorList& parameters, const NamedTensorList& buffers);
};

}  // namespace accelerate::python
