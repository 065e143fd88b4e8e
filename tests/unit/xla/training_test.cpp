// SPDX-License-Identifier: Apache-2.0
// Unmodified LibTorch loops on xla:0 next to the CPU, in f64 and strict mode.
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>

#include "unit/xla/xla_device.h"

namespace accelerate::xla {
namespace {

namespace nn = torch::nn;

using Optimizer = std::shared_ptr<torch::optim::Optimizer>;

struct Training {
  std::string name;
  std::function<nn::Sequential()> make_model;
  std::vector<std::int64_t> input;
  std::function<Optimizer(std::vector<at::Tensor>)> make_optimizer;
};

void PrintTo(const Training& training, std::ostream* out) {
  *out << training.name;
}

nn::Sequential make_mlp() {
  return nn::Sequential(
      nn::Linear(8, 16),
      nn::ReLU(),
      nn::Linear(16, 16),
      nn::Tanh(),
      nn::LayerNorm(nn::LayerNormOptions({16})),
      nn::Linear(16, 4));
}

nn::Sequential make_cnn() {
  return nn::Sequential(
      nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)),
      nn::BatchNorm2d(8),
      nn::ReLU(),
      nn::Conv2d(nn::Conv2dOptions(8, 8, 3).stride(2).groups(2)),
      nn::GroupNorm(nn::GroupNormOptions(2, 8)),
      nn::GELU(),
      nn::Flatten(),
      nn::Linear(8 * 3 * 3, 4));
}

struct EncoderImpl : nn::Module {
  EncoderImpl() {
    nn::TransformerEncoderLayerOptions options(16, 2);
    options.dim_feedforward(32).dropout(0.0).activation(torch::kGELU);
    encoder = register_module(
        "encoder",
        nn::TransformerEncoder(nn::TransformerEncoderOptions(options, 1)));
    head = register_module("head", nn::Linear(16, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(encoder(x).select(0, 0));
  }

  nn::TransformerEncoder encoder{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Encoder);

nn::Sequential make_transformer() {
  return nn::Sequential(Encoder());
}

Optimizer make_sgd(std::vector<at::Tensor> parameters) {
  return std::make_shared<torch::optim::SGD>(
      std::move(parameters),
      torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
}

Optimizer make_adamw(std::vector<at::Tensor> parameters) {
  return std::make_shared<torch::optim::AdamW>(
      std::move(parameters), torch::optim::AdamWOptions(1e-3));
}

Optimizer make_adam(std::vector<at::Tensor> parameters) {
  return std::make_shared<torch::optim::Adam>(
      std::move(parameters), torch::optim::AdamOptions(1e-3).amsgrad(true));
}

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;
};

// Twenty steps of a usual loop; on the device a step ends where it does in
// training: after the optimizer.
Trained train(const Training& training, bool device) {
  torch::manual_seed(3);
  nn::Sequential model = training.make_model();
  model->to(at::kDouble);
  const at::Tensor x = at::randn(training.input, at::kDouble);
  const at::Tensor y =
      at::randint(4, {training.input[training.name[0] == 'T']});
  const c10::Device where(device ? "xla:0" : "cpu");
  test_device();
  model->to(where);
  const auto placed = [device](const at::Tensor& batch) {
    return device ? to_xla_divided(batch) : batch;
  };
  const auto optimizer = training.make_optimizer(model->parameters());
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 20; ++step) {
    const at::Tensor loss =
        at::cross_entropy_loss(model->forward(placed(x)), placed(y));
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
  for (const at::Tensor& parameter : model->parameters()) {
    result.parameters.push_back(to_cpu(parameter.detach()));
  }
  return result;
}

class XlaTraining : public testing::TestWithParam<Training> {};

TEST_P(XlaTraining, EqualsTheCpuAfterTwentySteps) {
  const Trained expected = train(GetParam(), false);
  const auto compiled = test_device().runner().counts().compiled;
  const Trained device = train(GetParam(), true);

  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(device.losses[i], expected.losses[i], 1e-9) << "step " << i;
  }
  for (std::size_t i = 0; i < expected.parameters.size(); ++i) {
    EXPECT_LE(
        (device.parameters[i] - expected.parameters[i])
            .abs()
            .max()
            .item<double>(),
        1e-9)
        << "parameter " << i;
  }
  // The first step makes the optimizer's state, the second donates it; the
  // other eighteen run the same program.
  EXPECT_LE(test_device().runner().counts().compiled - compiled, 3);
  EXPECT_LT(device.losses.back(), device.losses.front());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    XlaTraining,
    testing::Values(
        Training{"MlpSgd", make_mlp, {6, 8}, make_sgd},
        Training{"MlpAdamW", make_mlp, {6, 8}, make_adamw},
        Training{"MlpAdam", make_mlp, {6, 8}, make_adam},
        Training{"CnnSgd", make_cnn, {4, 3, 8, 8}, make_sgd},
        Training{"TransformerSgd", make_transformer, {6, 4, 16}, make_sgd},
        Training{"TransformerAdamW", make_transformer, {6, 4, 16}, make_adamw}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace accelerate::xla
