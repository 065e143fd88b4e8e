// SPDX-License-Identifier: Apache-2.0
#include "training/module_tensors.h"

#include <torch/nn/module.h>

#include "parallel/model_sync.h"

namespace accelerate {
namespace {

NamedTensors named_tensors(
    const torch::OrderedDict<std::string, at::Tensor>& items) {
  NamedTensors all;
  for (const auto& item : items) {
    all.names.push_back(item.key());
    all.tensors.push_back(item.value());
  }
  return all;
}

}  // namespace

NamedTensors all_parameters_of(const torch::nn::Module& module) {
  return named_tensors(module.named_parameters());
}

NamedTensors parameters_of(const torch::nn::Module& module) {
  return without_repeats(all_parameters_of(module));
}

NamedTensors buffers_of(const torch::nn::Module& module) {
  return named_tensors(module.named_buffers());
}

}  // namespace accelerate
