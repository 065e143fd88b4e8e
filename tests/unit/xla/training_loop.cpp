// SPDX-License-Identifier: Apache-2.0
#include "unit/xla/training_loop.h"

#include "unit/xla/xla_device.h"

namespace accelerate::xla {
namespace {

constexpr int kSteps = 20;

TensorMap placed(const TensorMap& batch, at::ScalarType type, bool device) {
  TensorMap result;
  for (const auto& [name, tensor] : batch) {
    const at::Tensor x = tensor.is_floating_point() ? tensor.to(type) : tensor;
    result[name] = device ? to_xla_divided(x) : x;
  }
  return result;
}

}  // namespace

void PrintTo(const Training& training, std::ostream* out) {
  *out << training.name;
}

Trained train(const Training& training, bool device) {
  test_device();
  torch::manual_seed(3);
  const LossModel model = training.make_model();
  const TensorMap batch = training.make_batch();
  model.module->to(training.type);
  model.module->to(c10::Device(device ? "xla:0" : "cpu"));
  const auto optimizer = training.make_optimizer(model.module->parameters());
  std::vector<at::Tensor> losses;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = model.loss(placed(batch, training.type, device));
    loss.backward();
    optimizer->step();
    optimizer->zero_grad();
    losses.push_back(loss.detach());
    if (device) {
      run_device();
    }
  }
  Trained result;
  for (const at::Tensor& loss : losses) {
    result.losses.push_back(loss.item<double>());
  }
  for (const at::Tensor& parameter : model.module->parameters()) {
    result.parameters.push_back(to_cpu(parameter.detach()));
  }
  return result;
}

double parameter_difference(const Trained& a, const Trained& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const at::Tensor difference = a.parameters[i] - b.parameters.at(i);
    largest = std::max(largest, difference.abs().max().item<double>());
  }
  return largest;
}

double loss_difference(const Trained& a, const Trained& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] - b.losses.at(i)));
  }
  return largest;
}

}  // namespace accelerate::xla
