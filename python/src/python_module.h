// SPDX-License-Identifier: Apache-2.0
// A Python `nn.Module` as the core sees it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/autocast_module.h"
#include "torch.h"

namespace accelerate::python {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

/// A tree of `torch::nn::Module`s with the tensors of a Python module under
/// the same names: the same tensors, so that what happens to one happens to
/// the other. It has no `forward`; Python's own knows autocast (see
/// `accelerate_cpp.modules`), which is what the second base class says.
class PythonModule : public torch::nn::Module, public AutocastModule {
 public:
  /// Names have dots: `encoder.0.weight`.
  PythonModule(
      const NamedTensorList& parameters, const NamedTensorList& buffers);
};

}  // namespace accelerate::python
