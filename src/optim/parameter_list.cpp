// SPDX-License-Identifier: Apache-2.0
#include "optim/parameter_list.h"

#include "accelerate/error.h"
#include "accelerate/optimizer_state.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

std::vector<at::Tensor> all_parameters(
    const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> result;
  for (const auto& group : optimizer.param_groups()) {
    result.insert(result.end(), group.params().begin(), group.params().end());
  }
  return result;
}

}  // namespace

ParameterList::ParameterList(
    const torch::optim::Optimizer& optimizer,
    const std::vector<std::string>& names) {
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  if (!names.empty() && names.size() != parameters.size()) {
    throw ArgumentError(
        str_cat(
            "expected one name for each of the optimizer's parameters (names: ",
            names.size(),
            ", parameters: ",
            parameters.size(),
            ")"),
        "get the names with `parameter_names`");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    add(names.empty() ? std::to_string(i) : names[i], parameters[i]);
  }
}

// LibTorch's optimizers may list a tied parameter twice.
void ParameterList::add(const std::string& name, const at::Tensor& parameter) {
  const void* key = parameter.unsafeGetTensorImpl();
  if (by_tensor_.count(key) != 0) {
    return;
  }
  if (!by_name_.emplace(name, entries_.size()).second) {
    throw ArgumentError(
        str_cat("two of the optimizer's parameters are named `", name, "`"));
  }
  by_tensor_.emplace(key, entries_.size());
  entries_.emplace_back(name, parameter);
}

const std::string& ParameterList::name_of(const at::Tensor& parameter) const {
  return entries_[by_tensor_.at(parameter.unsafeGetTensorImpl())].first;
}

const at::Tensor* ParameterList::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second].second;
}

std::vector<std::string> parameter_names(
    const torch::optim::Optimizer& optimizer,
    const std::vector<std::pair<std::string, at::Tensor>>& named) {
  std::map<const void*, std::string> names;
  for (const auto& [name, tensor] : named) {
    names.emplace(tensor.unsafeGetTensorImpl(), name);
  }
  std::vector<std::string> result;
  std::string missing;
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto found = names.find(parameters[i].unsafeGetTensorImpl());
    if (found == names.end()) {
      missing +=
          str_cat("\n  parameter ", i, " of shape ", parameters[i].sizes());
      continue;
    }
    result.push_back(found->second);
  }
  if (!missing.empty()) {
    throw ArgumentError(
        str_cat(
            "the optimizer updates parameters that are not in the model:",
            missing),
        "create the optimizer after the model has all its parameters");
  }
  return result;
}

}  // namespace accelerate
