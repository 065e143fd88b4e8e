// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_names.h"

#include "base/str_cat.h"

namespace accelerate {

std::string numbered(const char* name, const std::size_t index) {
  return index == 0 ? name : str_cat(name, "_", index);
}

std::string gradient_name(const std::size_t model, const std::string& name) {
  return str_cat(kGradient, model, ".", name);
}

std::string buffer_name(const std::size_t model, const std::string& name) {
  return str_cat(kBuffer, model, ".", name);
}

bool any_name_begins(const TensorMap& tensors, const char* name) {
  const auto next = tensors.lower_bound(name);
  return next != tensors.end() && next->first.starts_with(name);
}

std::string type_and_shape(const at::Tensor& tensor) {
  return str_cat(tensor.scalar_type(), tensor.sizes());
}

TensorMap merge_named(
    const NamedTensors& parameters, const NamedTensors& buffers) {
  TensorMap weights;
  for (const NamedTensors* named : {&parameters, &buffers}) {
    for (std::size_t i = 0; i < named->size(); ++i) {
      if (named->tensors[i].defined()) {
        weights.emplace(named->names[i], named->tensors[i]);
      }
    }
  }
  return weights;
}

TensorMap weights_of(const PreparedModel& model) {
  return merge_named(model.parameters, model.current_buffers());
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters(
    const std::vector<PreparedModel>& models) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const NamedTensors& parameters = models[m].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      named.emplace_back(
          m == 0 ? parameters.names[i]
                 : str_cat("model_", m, ".", parameters.names[i]),
          parameters.tensors[i]);
    }
  }
  return named;
}

}  // namespace accelerate
