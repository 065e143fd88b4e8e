// SPDX-License-Identifier: Apache-2.0
// An optimizer's parameters with their names.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// The parameters of an optimizer and their names, in the order of the
/// optimizer's parameter groups. Each parameter appears only once.
class ParameterList {
 public:
  /// Takes the same `names` as `optimizer_state`, and throws the same
  /// exceptions if `names` does not match the optimizer.
  ParameterList(
      const torch::optim::Optimizer& optimizer,
      const std::vector<std::string>& names);

  const std::vector<std::pair<std::string, at::Tensor>>& entries() const {
    return entries_;
  }
  const std::string& name_of(const at::Tensor& parameter) const;
  /// Returns the parameter with this name, or null if the name is unknown.
  const at::Tensor* find(const std::string& name) const;

 private:
  void add(const std::string& name, const at::Tensor& parameter);

  std::vector<std::pair<std::string, at::Tensor>> entries_;
  std::map<std::string, std::size_t> by_name_;
  std::map<const void*, std::size_t> by_tensor_;
};

}  // namespace accelerate
