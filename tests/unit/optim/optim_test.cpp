// SPDX-License-Identifier: Apache-2.0
#include "accelerate/optim.h"

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/optim.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "unit/optim/parameter_fixtures.h"

namespace accelerate {
namespace {

using torch::optim::OptimizerParamGroup;

using Maker =
    std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors&)>;

struct Pair {
  std::string name;
  Maker make;
  Maker make_libtorch;
};

void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.name;
}

template <typename Optimizer, typename Options>
Maker make(const Options& options) {
  return [options](const Tensors& parameters) {
    return std::make_unique<Optimizer>(parameters, options);
  };
}

template <typename Optimizer, typename First, typename Second>
Maker make_groups(const First& first, const Second& second) {
  return [=](const Tensors& parameters) {
    std::vector<OptimizerParamGroup> groups = {
        first({parameters.begin(), parameters.begin() + 2}),
        second({parameters.begin() + 2, parameters.end()})};
    return std::make_unique<Optimizer>(groups, 1e-2);
  };
}

template <typename Options>
auto accelerate_group(const Options& options) {
  return [=](const Tensors& parameters) {
    return param_group(parameters, options);
  };
}

template <typename Options>
auto libtorch_group(const Options& options) {
  return [=](const Tensors& parameters) {
    return OptimizerParamGroup(parameters, std::make_unique<Options>(options));
  };
}

std::vector<Pair> pairs() {
  namespace libtorch = torch::optim;
  return {
      {"AdamW",
       make<AdamW>(AdamWOptions{.lr = 1e-2}),
       make<libtorch::AdamW>(libtorch::AdamWOptions(1e-2))},
      {"AdamWDefaults",
       make<AdamW>(AdamWOptions{}),
       make<libtorch::AdamW>(libtorch::AdamWOptions())},
      {"AdamWAmsgrad",
       make<AdamW>(
           AdamWOptions{.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true}),
       make<libtorch::AdamW>(
           libtorch::AdamWOptions(1e-2).weight_decay(0.1).amsgrad(true))},
      {"AdamWBetas",
       make<AdamW>(AdamWOptions{
           .lr = 1e-2, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0}),
       make<libtorch::AdamW>(libtorch::AdamWOptions(1e-2)
                                 .betas({0.8, 0.95})
                                 .eps(1e-6)
                                 .weight_decay(0))},
      {"Adam",
       make<Adam>(AdamOptions{.lr = 1e-2}),
       make<libtorch::Adam>(libtorch::AdamOptions(1e-2))},
      {"AdamDecayAmsgrad",
       make<Adam>(
           AdamOptions{.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true}),
       make<libtorch::Adam>(
           libtorch::AdamOptions(1e-2).weight_decay(0.1).amsgrad(true))},
      {"SGD",
       make<SGD>(SGDOptions{.lr = 1e-2}),
       make<libtorch::SGD>(libtorch::SGDOptions(1e-2))},
      {"SGDDecay",
       make<SGD>(SGDOptions{.lr = 1e-2, .weight_decay = 0.1}),
       make<libtorch::SGD>(libtorch::SGDOptions(1e-2).weight_decay(0.1))},
      {"SGDMomentum",
       make<SGD>(SGDOptions{.lr = 1e-2, .momentum = 0.9}),
       make<libtorch::SGD>(libtorch::SGDOptions(1e-2).momentum(0.9))},
      {"SGDDampening",
       make<SGD>(SGDOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.3}),
       make<libtorch::SGD>(
           libtorch::SGDOptions(1e-2).momentum(0.9).dampening(0.3))},
      {"SGDNesterov",
       make<SGD>(SGDOptions{
           .lr = 1e-2,
           .momentum = 0.9,
           .weight_decay = 0.01,
           .nesterov = true}),
       make<libtorch::SGD>(
           libtorch::SGDOptions(1e-2).momentum(0.9).weight_decay(0.01).nesterov(
               true))},
      {"AdamWGroups",
       make_groups<AdamW>(
           accelerate_group(AdamWOptions{.lr = 3e-2, .weight_decay = 0.2}),
           accelerate_group(AdamWOptions{.lr = 1e-3, .weight_decay = 0})),
       make_groups<libtorch::AdamW>(
           libtorch_group(libtorch::AdamWOptions(3e-2).weight_decay(0.2)),
           libtorch_group(libtorch::AdamWOptions(1e-3).weight_decay(0)))},
      {"SGDGroups",
       make_groups<SGD>(
           accelerate_group(SGDOptions{.lr = 3e-2, .momentum = 0.5}),
           [](const Tensors& p) { return OptimizerParamGroup(p); }),
       make_groups<libtorch::SGD>(
           libtorch_group(libtorch::SGDOptions(3e-2).momentum(0.5)),
           [](const Tensors& p) { return OptimizerParamGroup(p); })},
  };
}

class Parity : public testing::TestWithParam<Pair> {};

TEST_P(Parity, HoldsOverAHundredSteps) {
  Tensors parameters = make_parameters();
  Tensors libtorch_parameters = make_parameters();
  const auto optimizer = GetParam().make(parameters);
  const auto libtorch_optimizer = GetParam().make_libtorch(libtorch_parameters);

  for (int step = 0; step < 100; ++step) {
    set_gradients(parameters, step);
    set_gradients(libtorch_parameters, step);
    optimizer->step();
    libtorch_optimizer->step();
  }

  const double difference = largest_difference(parameters, libtorch_parameters);
  RecordProperty("largest_difference", std::to_string(difference));
  EXPECT_LE(difference, 1e-6);
  EXPECT_GT(largest_difference(parameters, make_parameters()), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, Parity, testing::ValuesIn(pairs()), [](const auto& pair) {
      return pair.param.name;
    });

// Maximizing f must equal minimizing -f.
template <typename Optimizer, typename Options>
void expect_maximizes(Options options) {
  Tensors up = make_parameters();
  Tensors down = make_parameters();
  Optimizer descent(down, options);
  options.maximize = true;
  Optimizer climb(up, options);

  for (int step = 0; step < 20; ++step) {
    set_gradients(up, step);
    set_gradients(down, step);
    for (at::Tensor& parameter : down) {
      if (parameter.grad().defined()) {
        parameter.mutable_grad() = parameter.grad().neg();
      }
    }
    climb.step();
    descent.step();
  }

  EXPECT_LE(largest_difference(up, down), 1e-6);
}

TEST(FusedOptimizer, Maximizes) {
  expect_maximizes<AdamW>(AdamWOptions{.lr = 1e-2, .amsgrad = true});
  expect_maximizes<Adam>(AdamOptions{.lr = 1e-2, .weight_decay = 0.1});
  expect_maximizes<SGD>(SGDOptions{.lr = 1e-2, .momentum = 0.9});
}

TEST(FusedOptimizer, WorksInDoubleAndWithBf16Parameters) {
  for (const auto type : {at::kDouble, at::kBFloat16}) {
    Tensors parameters = make_parameters(type);
    Tensors libtorch_parameters = make_parameters(type);
    AdamW optimizer(parameters, 1e-2);
    torch::optim::AdamW libtorch_optimizer(libtorch_parameters, 1e-2);
    for (int step = 0; step < 10; ++step) {
      set_gradients(parameters, step);
      set_gradients(libtorch_parameters, step);
      optimizer.step();
      libtorch_optimizer.step();
    }
    // bf16 has 8 bits of precision, and LibTorch also rounds between its
    // operations.
    const double tolerance = type == at::kDouble ? 1e-12 : 4e-2;
    EXPECT_LE(largest_difference(parameters, libtorch_parameters), tolerance)
        << type;
  }
}

TEST(FusedOptimizer, UpdatesAParameterThatIsASliceOfAnother) {
  at::Tensor base = at::ones({4, 4});
  at::Tensor slice = base.slice(1, 1, 3).detach().requires_grad_();
  slice.mutable_grad() = at::ones({4, 2});

  SGD optimizer({slice}, 0.5);
  optimizer.step();

  const at::Tensor row = at::tensor({1.0F, 0.5F, 0.5F, 1.0F});
  EXPECT_TRUE(base.equal(row.expand({4, 4})));
}

TEST(FusedOptimizer, FollowsAParameterToAnotherLayoutAndType) {
  Tensors parameters = make_parameters();
  Tensors plain = make_parameters();
  AdamW moved(parameters, 1e-2);
  AdamW stayed(plain, 1e-2);
  for (int step = 0; step < 10; ++step) {
    if (step == 5) {
      parameters[0].set_data(parameters[0].detach().t().contiguous().t());
    }
    set_gradients(parameters, step);
    set_gradients(plain, step);
    moved.step();
    stayed.step();
  }
  expect_bitwise_equal(parameters, plain);

  parameters[0].set_data(parameters[0].detach().to(at::kDouble));
  parameters[0].mutable_grad() = at::ones({5, 3}, at::kDouble);
  moved.step();
  EXPECT_EQ(parameters[0].scalar_type(), at::kDouble);
}

TEST(FusedOptimizer, CountsTiedParametersOnce) {
  at::Tensor tied = at::ones({2}).requires_grad_();
  SGD optimizer({tied, tied}, 0.5);
  tied.mutable_grad() = at::ones({2});

  optimizer.step();

  EXPECT_EQ(tied[0].item<float>(), 0.5F);
  EXPECT_EQ(optimizer.param_groups()[0].params().size(), 1);
}

TEST(FusedOptimizer, RunsAClosureWithGradients) {
  at::Tensor weight = at::full({1}, 2.0F).requires_grad_();
  SGD optimizer({weight}, 0.5);
  const at::NoGradGuard no_grad;

  const at::Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    const at::Tensor value = weight.pow(2).sum();
    value.backward();
    return value;
  });

  EXPECT_EQ(loss.item<float>(), 4);
  EXPECT_EQ(weight.item<float>(), 0);
}

TEST(FusedOptimizer, DividesGradientsByTheScale) {
  Tensors parameters = make_parameters();
  Tensors plain = make_parameters();
  AdamW scaled(parameters, 1e-2);
  AdamW unscaled(plain, 1e-2);
  scaled.set_scale(at::full({}, 1024.0F), at::zeros({1}));
  for (int step = 0; step < 10; ++step) {
    set_gradients(parameters, step);
    set_gradients(plain, step);
    for (at::Tensor& parameter : parameters) {
      if (parameter.grad().defined()) {
        parameter.mutable_grad() = parameter.grad() * 1024;
      }
    }
    scaled.step();
    unscaled.step();
  }
  expect_bitwise_equal(parameters, plain);
}

TEST(FusedOptimizer, TakesItsLearningRateFromTheGroup) {
  at::Tensor weight = at::ones({1}).requires_grad_();
  SGD optimizer({weight}, 0.5);
  optimizer.param_groups()[0].options().set_lr(0.25);
  weight.mutable_grad() = at::ones({1});
  optimizer.step();
  EXPECT_EQ(weight.item<float>(), 0.75F);
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.25);
}

at::Tensor sparse_gradient() {
  return at::sparse_coo_tensor(
      at::tensor({1, 1}, at::kLong).unsqueeze(0),
      at::tensor({2.0F, 4.0F}),
      {3});
}

TEST(SGD, AcceptsSparseGradients) {
  at::Tensor weight = at::ones({3}).requires_grad_();
  SGD optimizer({weight}, 0.5);
  weight.mutable_grad() = sparse_gradient();

  optimizer.step();
  EXPECT_TRUE(weight.equal(at::tensor({1.0F, -2.0F, 1.0F})));

  optimizer.set_scale({}, at::ones({1}));
  optimizer.step();
  EXPECT_TRUE(weight.equal(at::tensor({1.0F, -2.0F, 1.0F})));
}

TEST(FusedOptimizer, RejectsUnsupportedSparseGradients) {
  at::Tensor weight = at::ones({3}).requires_grad_();
  weight.mutable_grad() = sparse_gradient();
  EXPECT_EQ(
      message_of<UnsupportedError>([&] { AdamW({weight}, 0.1).step(); }),
      "AdamW does not support sparse gradients, but the parameter of shape [3] "
      "has a sparse gradient");
  EXPECT_EQ(
      message_of<UnsupportedError>([&] {
        SGD({weight}, SGDOptions{.lr = 0.1, .momentum = 0.9}).step();
      }),
      "SGD with momentum 0.9 and weight decay 0 does not support sparse "
      "gradients, but the parameter of shape [3] has a sparse gradient");
}

struct Rejection {
  std::string message;
  std::function<void()> body;
};

TEST(FusedOptimizer, RejectsInvalidArguments) {
  const at::Tensor p = at::ones({2}).requires_grad_();
  const at::Tensor q = at::ones({3}).requires_grad_();
  const std::vector<Rejection> rejections = {
      {"`lr` is -1", [&] { AdamW({p}, -1.0); }},
      {"`eps` is -1", [&] { Adam({p}, AdamOptions{.eps = -1}); }},
      {"`betas[0]` is 1", [&] { AdamW({p}, AdamWOptions{.betas = {1, 0}}); }},
      {"`betas[1]` is -0.5",
       [&] { Adam({p}, AdamOptions{.betas = {0, -0.5}}); }},
      {"`weight_decay` is -2",
       [&] { SGD({p}, SGDOptions{.weight_decay = -2}); }},
      {"`momentum` is -1", [&] { SGD({p}, SGDOptions{.momentum = -1}); }},
      {"`nesterov` needs a positive `momentum` and no `dampening`, but "
       "`momentum` is 0 and `dampening` is 0",
       [&] { SGD({p}, SGDOptions{.nesterov = true}); }},
      {"`lr` is nan", [&] { SGD({p}, std::nan("")); }},
      {"parameter 0 of parameter group 1 is also in parameter group 0",
       [&] {
         AdamW(
             std::vector<OptimizerParamGroup>{
                 OptimizerParamGroup(Tensors{p}),
                 OptimizerParamGroup(Tensors{p})},
             0.1);
       }},
      {"parameter 1 of parameter group 0 (shape [2]) was computed from other "
       "tensors, so it never gets a gradient",
       [&] { SGD({q, p * 2}, 0.1); }},
      {"parameter 0 of parameter group 0 is an undefined tensor",
       [&] { SGD({at::Tensor()}, 0.1); }},
      {"parameter group 0 passed to AdamW has options for a different "
       "optimizer",
       [&] {
         AdamW(
             std::vector<OptimizerParamGroup>{
                 param_group({p}, SGDOptions{.lr = 0.1})},
             0.1);
       }},
      {"`found_inf` must be a float32 tensor with one element, but it has "
       "shape [2] and type Float",
       [&] { SGD({p}, 0.1).set_scale({}, at::zeros({2})); }},
  };
  for (const auto& [message, body] : rejections) {
    EXPECT_EQ(message_of<ArgumentError>(body), message);
  }
}

TEST(FusedOptimizer, RejectsLibTorchArchives) {
  at::Tensor weight = at::ones({1}).requires_grad_();
  AdamW optimizer({weight}, 0.1);
  torch::serialize::OutputArchive archive;
  EXPECT_EQ(
      message_of<UnsupportedError>([&] { optimizer.save(archive); }),
      "`torch::save` does not support accelerate's optimizers");
}

TEST(FusedOptimizer, RejectsTypesThatItsKernelsDoNotSupport) {
  at::Tensor weight = at::ones({2}, at::kComplexFloat).requires_grad_();
  weight.mutable_grad() = at::ones({2}, at::kComplexFloat);
  EXPECT_EQ(
      message_of<UnsupportedError>([&] { AdamW({weight}, 0.1).step(); }),
      "a parameter of shape [2] and type ComplexFloat cannot be updated: only "
      "floating-point types are supported");
}

}  // namespace
}  // namespace accelerate
