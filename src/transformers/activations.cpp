// SPDX-License-Identifier: Apache-2.0
#include "transformers/activations.h"

#include <map>
#include <vector>

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {
namespace {

at::Tensor gelu(const at::Tensor& x) {
  return at::gelu(x);
}
at::Tensor gelu_tanh(const at::Tensor& x) {
  return at::gelu(x, "tanh");
}
at::Tensor quick_gelu(const at::Tensor& x) {
  return x * at::sigmoid(1.702 * x);
}
at::Tensor gelu_10(const at::Tensor& x) {
  return at::gelu(x).clamp(-10, 10);
}
at::Tensor relu(const at::Tensor& x) {
  return at::relu(x);
}
at::Tensor relu2(const at::Tensor& x) {
  return at::relu(x).square();
}
at::Tensor relu6(const at::Tensor& x) {
  return at::relu6(x);
}
at::Tensor leaky_relu(const at::Tensor& x) {
  return at::leaky_relu(x);
}
at::Tensor silu(const at::Tensor& x) {
  return at::silu(x);
}
at::Tensor mish(const at::Tensor& x) {
  return at::mish(x);
}
at::Tensor hardswish(const at::Tensor& x) {
  return at::hardswish(x);
}
at::Tensor sigmoid(const at::Tensor& x) {
  return at::sigmoid(x);
}
at::Tensor tanh(const at::Tensor& x) {
  return at::tanh(x);
}
at::Tensor linear(const at::Tensor& x) {
  return x;
}

const std::map<std::string, Activation>& activations() {
  static const std::map<std::string, Activation> all = {
      {"gelu", gelu},
      {"gelu_10", gelu_10},
      {"gelu_accurate", gelu_tanh},
      {"gelu_fast", gelu_tanh},
      {"gelu_new", gelu_tanh},
      {"gelu_python", gelu},
      {"gelu_python_tanh", gelu_tanh},
      {"gelu_pytorch_tanh", gelu_tanh},
      {"hardswish", hardswish},
      {"leaky_relu", leaky_relu},
      {"linear", linear},
      {"mish", mish},
      {"quick_gelu", quick_gelu},
      {"relu", relu},
      {"relu2", relu2},
      {"relu6", relu6},
      {"sigmoid", sigmoid},
      {"silu", silu},
      {"swish", silu},
      {"tanh", tanh},
  };
  return all;
}

}  // namespace

Activation activation(const std::string& name) {
  const auto found = activations().find(name);
  if (found != activations().end()) {
    return found->second;
  }
  std::vector<std::string> known;
  for (const auto& [key, function] : activations()) {
    known.push_back(key);
  }
  throw accelerate::UnsupportedError(
      accelerate::str_cat(
          "the activation `",
          accelerate::printable(name),
          "` is not supported; supported activations: ",
          accelerate::join(known, ", ")),
      accelerate::did_you_mean(name, known));
}

accelerate::ActivationKind activation_kind(const std::string& name) {
  using accelerate::ActivationKind;
  const Activation function = activation(name);
  return function == gelu        ? ActivationKind::gelu_erf
         : function == gelu_tanh ? ActivationKind::gelu_tanh
         : function == silu      ? ActivationKind::silu
                                 : ActivationKind::other;
}

}  // namespace transformers
