// SPDX-License-Identifier: Apache-2.0
#include "python_module.h"

namespace accelerate::python {
namespace {

// Returns the module that owns `name` and creates it if necessary. Shortens
// `name` to the name within that module.
torch::nn::Module& owner_of(torch::nn::Module& root, std::string& name) {
  torch::nn::Module* owner = &root;
  for (auto dot = name.find('.'); dot != std::string::npos;
       dot = name.find('.')) {
    const std::string child = name.substr(0, dot);
    name.erase(0, dot + 1);
    const auto children = owner->named_children();
    const auto* existing = children.find(child);
    owner = existing != nullptr
                ? existing->get()
                : owner
                      ->register_module(
                          child, std::make_shared<torch::nn::Module>(child))
                      .get();
  }
  return *owner;
}

}  // namespace

PythonModule::PythonModule(
    const NamedTensorList& parameters, const NamedTensorList& buffers) {
  for (auto [name, tensor] : parameters) {
    torch::nn::Module& owner = owner_of(*this, name);
    owner.register_parameter(name, tensor, tensor.requires_grad());
  }
  for (auto [name, tensor] : buffers) {
    torch::nn::Module& owner = owner_of(*this, name);
    owner.register_buffer(name, tensor);
  }
}

}  // namespace accelerate::python
