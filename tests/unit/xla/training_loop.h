// SPDX-License-Identifier: Apache-2.0
// A usual training loop, on the CPU or on xla:0.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/tensor_map.h"

namespace accelerate::xla {

using Optimizer = std::shared_ptr<torch::optim::Optimizer>;

struct LossModel {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const TensorMap&)> loss;
};

struct Training {
  std::string name;
  std::function<LossModel()> make_model;
  std::function<TensorMap()> make_batch;
  std::function<Optimizer(std::vector<at::Tensor>)> make_optimizer;
  at::ScalarType type = at::kDouble;
};

void PrintTo(const Training& training, std::ostream* out);

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;  ///< On the CPU.
};

/// Trains for twenty steps, on xla:0 if `device` is true, otherwise on the CPU.
/// On xla:0, the recorded operations run after each update of the optimizer.
Trained train(const Training& training, bool device);

/// Returns the largest difference between elements of the parameters.
double parameter_difference(const Trained& a, const Trained& b);
double loss_difference(const Trained& a, const Trained& b);

}  // namespace accelerate::xla
