// SPDX-License-Identifier: Apache-2.0
// Unmodified LibTorch loops on xla:0 next to the CPU, in f64 and strict mode.
#include <gtest/gtest.h>

#include "unit/xla/training_loop.h"
#include "unit/xla/xla_device.h"

namespace accelerate::xla {
namespace {

namespace nn = torch::nn;

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

struct Case {
  const char* name;
  nn::Sequential (*make_model)();
  std::vector<std::int64_t> input;
  std::int64_t samples;
  Optimizer (*make_optimizer)(std::vector<at::Tensor>);
};

Training training_of(const Case& made) {
  return {
      made.name,
      [make_model = made.make_model]() -> LossModel {
        nn::Sequential model = make_model();
        return {model.ptr(), [model](const TensorMap& batch) mutable {
                  return at::cross_entropy_loss(
                      model->forward(batch.at("x")), batch.at("y"));
                }};
      },
      [input = made.input, samples = made.samples]() -> TensorMap {
        return {{"x", at::randn(input)}, {"y", at::randint(4, {samples})}};
      },
      made.make_optimizer};
}

class XlaTraining : public testing::TestWithParam<Training> {};

TEST_P(XlaTraining, EqualsTheCpuAfterTwentySteps) {
  const Trained expected = train(GetParam(), false);
  const auto compiled = test_device().runner().counts().compiled;
  const Trained device = train(GetParam(), true);

  EXPECT_LE(loss_difference(device, expected), 1e-9);
  EXPECT_LE(parameter_difference(device, expected), 1e-9);
  // The first step makes the optimizer's state, the second donates it; the
  // other eighteen run the same program.
  EXPECT_LE(test_device().runner().counts().compiled - compiled, 3);
  EXPECT_LT(device.losses.back(), device.losses.front());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    XlaTraining,
    testing::Values(
        training_of({"MlpSgd", make_mlp, {6, 8}, 6, make_sgd}),
        training_of({"MlpAdamW", make_mlp, {6, 8}, 6, make_adamw}),
        training_of({"MlpAdam", make_mlp, {6, 8}, 6, make_adam}),
        training_of({"CnnSgd", make_cnn, {4, 3, 8, 8}, 4, make_sgd}),
        training_of(
            {"TransformerSgd", make_transformer, {6, 4, 16}, 4, make_sgd}),
        training_of(
            {"TransformerAdamW", make_transformer, {6, 4, 16}, 4, make_adamw})),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace accelerate::xla
