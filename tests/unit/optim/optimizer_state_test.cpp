// SPDX-License-Identifier: Apache-2.0
#include "accelerate/optimizer_state.h"

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/optim.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "support/message_of.h"
#include "unit/optim/parameter_fixtures.h"

namespace accelerate {
namespace {

struct Stateful {
  std::string name;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors&)> make;
};

void PrintTo(const Stateful& stateful, std::ostream* out) {
  *out << stateful.name;
}

template <typename Optimizer, typename Options>
Stateful stateful(const std::string& name, const Options& options) {
  return {name, [options](const Tensors& parameters) {
            return std::make_unique<Optimizer>(parameters, options);
          }};
}

std::vector<Stateful> all_stateful() {
  namespace libtorch = torch::optim;
  return {
      stateful<AdamW>("AdamW", AdamWOptions{.lr = 0.1, .amsgrad = true}),
      stateful<Adam>("Adam", AdamOptions{.lr = 0.1, .weight_decay = 0.1}),
      stateful<SGD>("SGD", SGDOptions{.lr = 0.1, .momentum = 0.9}),
      stateful<SGD>(
          "SGDDampening",
          SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}),
      stateful<libtorch::AdamW>(
          "LibTorchAdamW", libtorch::AdamWOptions(0.1).amsgrad(true)),
      stateful<libtorch::Adam>("LibTorchAdam", libtorch::AdamOptions(0.1)),
      stateful<libtorch::SGD>(
          "LibTorchSGD", libtorch::SGDOptions(0.1).momentum(0.9)),
      stateful<libtorch::RMSprop>(
          "LibTorchRMSprop",
          libtorch::RMSpropOptions(0.1).momentum(0.9).centered(true)),
      stateful<libtorch::Adagrad>(
          "LibTorchAdagrad", libtorch::AdagradOptions(0.1).lr_decay(0.1)),
  };
}

void train_steps(
    Tensors& parameters,
    torch::optim::Optimizer& optimizer,
    int first,
    int last) {
  for (int step = first; step < last; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

// Returns the state as it would be after saving and loading a file: with new
// tensors, and JSON converted to text and back.
OptimizerState through_a_file(const OptimizerState& state) {
  OptimizerState result;
  for (const auto& [name, tensor] : state.tensors) {
    result.tensors[name] = tensor.clone().contiguous();
  }
  result.scalars = Json::parse(state.scalars.dump());
  return result;
}

void copy_into(const Tensors& from, Tensors& to) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].copy_(from[i]);
  }
}

const std::vector<std::string> kNames = {
    "first.weight", "first.bias", "scale", "second.weight", "empty", "head"};

class OptimizerStates : public testing::TestWithParam<Stateful> {};

TEST_P(OptimizerStates, ContinueInAnotherOptimizer) {
  Tensors parameters = make_parameters();
  const auto optimizer = GetParam().make(parameters);
  train_steps(parameters, *optimizer, 0, 6);
  optimizer->param_groups()[0].options().set_lr(0.025);
  const auto state = through_a_file(optimizer_state(*optimizer, kNames));
  Tensors resumed = make_parameters();
  copy_into(parameters, resumed);

  const auto other = GetParam().make(resumed);
  train_steps(resumed, *other, 50, 53);  // This state must be replaced.
  copy_into(parameters, resumed);
  load_optimizer_state(*other, state, kNames);
  train_steps(parameters, *optimizer, 6, 12);
  train_steps(resumed, *other, 6, 12);

  EXPECT_EQ(other->param_groups()[0].options().get_lr(), 0.025);
  expect_bitwise_equal(parameters, resumed);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    OptimizerStates,
    testing::ValuesIn(all_stateful()),
    [](const auto& test) { return test.param.name; });

TEST(OptimizerState, NamesTensorsAndScalars) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  at::Tensor unused = at::ones({1}).requires_grad_();
  AdamW optimizer({weight, unused}, 0.5);
  weight.mutable_grad() = at::ones({2});
  optimizer.step();

  const OptimizerState state = optimizer.state_dict({"weight", "unused"});

  ASSERT_EQ(state.tensors.size(), 2);
  EXPECT_NEAR(state.tensors.at("weight.exp_avg")[0].item<float>(), 0.1, 1e-7);
  EXPECT_NEAR(
      state.tensors.at("weight.exp_avg_sq")[1].item<float>(), 1e-3, 1e-9);
  EXPECT_EQ(
      state.scalars.dump(),
      R"({"optimizer":"AdamW","state":{"weight":{"step":1}},)"
      R"("param_groups":[{"params":["weight","unused"],"lr":0.5,)"
      R"("betas":[0.9,0.999],"eps":1e-08,"weight_decay":0.01,)"
      R"("amsgrad":false,"maximize":false}]})");
}

TEST(OptimizerState, LoadsIntoTheLibTorchOptimizerOfTheSameName) {
  Tensors parameters = make_parameters();
  Tensors libtorch_parameters = make_parameters();
  AdamW optimizer(parameters, 0.01);
  torch::optim::AdamW libtorch_optimizer(libtorch_parameters, 0.5);
  train_steps(parameters, optimizer, 0, 6);
  copy_into(parameters, libtorch_parameters);

  load_optimizer_state(
      libtorch_optimizer, through_a_file(optimizer_state(optimizer)));
  train_steps(parameters, optimizer, 6, 12);
  train_steps(libtorch_parameters, libtorch_optimizer, 6, 12);

  EXPECT_LE(largest_difference(parameters, libtorch_parameters), 1e-6);
}

TEST(OptimizerState, KeepsStepCountersPackedAfterALoad) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters, 0.01);
  train_steps(parameters, optimizer, 0, 7);

  optimizer.load_state_dict(through_a_file(optimizer.state_dict()));

  const auto storage = [&](const at::Tensor& parameter) {
    const auto& state = static_cast<const AdamParamState&>(
        *optimizer.state().at(parameter.unsafeGetTensorImpl()));
    return state.step.storage().unsafeGetStorageImpl();
  };
  EXPECT_EQ(storage(parameters[0]), storage(parameters[5]));
}

TEST(OptimizerState, ContinuesLbfgs) {
  const auto loss_of = [](const at::Tensor& x) {
    const at::Tensor scales = at::tensor({1.0F, 10.0F, 100.0F});
    return ((x - 1).pow(2) * scales).sum() + x.pow(4).sum();
  };
  const auto step = [&](torch::optim::LBFGS& optimizer, const at::Tensor& x) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const at::Tensor loss = loss_of(x);
      loss.backward();
      return loss;
    });
  };
  const auto options = torch::optim::LBFGSOptions(0.1).max_iter(3);
  at::Tensor x = at::zeros({3}).requires_grad_();
  torch::optim::LBFGS optimizer({x}, options);
  step(optimizer, x);

  at::Tensor y = x.detach().clone().requires_grad_();
  torch::optim::LBFGS other({y}, options);
  load_optimizer_state(other, through_a_file(optimizer_state(optimizer)));
  step(optimizer, x);
  step(other, y);

  EXPECT_TRUE(bitwise_equal(x, y));
}

TEST(OptimizerState, ListsAllProblemsAndChangesNothing) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters, 0.01);
  train_steps(parameters, optimizer, 0, 7);
  OptimizerState state = through_a_file(optimizer.state_dict(kNames));
  const std::string before = optimizer.state_dict(kNames).scalars.dump();
  state.tensors.erase("head.exp_avg");
  state.tensors["scale.exp_avg"] = at::ones({2});
  state.tensors["unknown"] = at::ones({1});
  state.scalars["state"]["removed"] = Json::object({{"step", 1}});
  state.scalars["state"]["first.bias"]["step"] = "two";

  EXPECT_EQ(
      message_of<FormatError>(
          [&] { optimizer.load_state_dict(state, kNames); }),
      "the saved state does not match the optimizer:\n"
      "  `step` of `first.bias`: expected an integer, found a string\n"
      "  tensor `scale.exp_avg` has shape [2], but the parameter has shape "
      "[]\n"
      "  tensor `head.exp_avg` is missing\n"
      "  the optimizer has no parameter `removed`\n"
      "  the optimizer does not use tensor `unknown`");
  EXPECT_EQ(optimizer.state_dict(kNames).scalars.dump(), before);
}

TEST(OptimizerState, RejectsTheStateOfADifferentOptimizer) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  AdamW adamw({weight}, 0.1);
  SGD sgd({weight}, 0.1);
  EXPECT_EQ(
      message_of<FormatError>([&] { sgd.load_state_dict(adamw.state_dict()); }),
      "the saved state belongs to the optimizer `AdamW`, not to `SGD`");
}

/// An optimizer that saves its state with its own functions.
class CustomState : public torch::optim::SGD, public StatefulOptimizer {
 public:
  using SGD::SGD;

  OptimizerState save_optimizer_state(
      const std::vector<std::string>& names) const override {
    OptimizerState state;
    state.tensors[names.at(0) + ".memory"] = memory;
    state.scalars = Json::object({{"optimizer", "CustomState"}});
    return state;
  }
  std::function<void()> stage_optimizer_state(
      const OptimizerState& state,
      const std::vector<std::string>& names) override {
    const at::Tensor saved = state.tensors.at(names.at(0) + ".memory");
    return [this, saved] { memory.copy_(saved); };
  }

  at::Tensor memory = at::zeros({2});
};

TEST(OptimizerState, SupportsStatefulOptimizers) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  CustomState saved({weight}, 0.1);
  saved.memory.fill_(7);
  CustomState loaded({weight}, 0.1);

  const OptimizerState state = optimizer_state(saved, {"weight"});
  load_optimizer_state(loaded, state, {"weight"});

  EXPECT_EQ(state.scalars.at("optimizer").as_string(), "CustomState");
  EXPECT_TRUE(loaded.memory.equal(saved.memory));
}

TEST(OptimizerState, RejectsDifferentParameterGroups) {
  at::Tensor a = at::ones({2}).requires_grad_();
  at::Tensor b = at::ones({2}).requires_grad_();
  SGD one_group({a, b}, 0.1);
  SGD two_groups(
      std::vector<torch::optim::OptimizerParamGroup>{
          param_group({a}, SGDOptions{}), param_group({b}, SGDOptions{})},
      0.1);
  EXPECT_EQ(
      message_of<FormatError>(
          [&] { one_group.load_state_dict(two_groups.state_dict()); }),
      "the saved state does not match the optimizer:\n"
      "  different numbers of parameter groups: 2 in the saved state, 1 in the "
      "optimizer");
  EXPECT_EQ(
      message_of<FormatError>([&] {
        one_group.load_state_dict(one_group.state_dict({"a", "b"}), {"a", "c"});
      }),
      "the saved state does not match the optimizer:\n"
      "  parameter group 0 has the parameters [\"a\",\"b\"] in the saved "
      "state, but [\"a\",\"c\"] in the optimizer");
}

TEST(OptimizerState, RejectsMaximizeForLibTorchOptimizers) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  SGD optimizer({weight}, SGDOptions{.maximize = true});
  torch::optim::SGD libtorch_optimizer({weight}, 0.1);
  EXPECT_EQ(
      message_of<FormatError>([&] {
        load_optimizer_state(libtorch_optimizer, optimizer.state_dict());
      }),
      "the saved optimizer has `maximize = true`, which LibTorch's optimizers "
      "do not support");
}

TEST(OptimizerState, ChecksNames) {
  at::Tensor a = at::ones({2}).requires_grad_();
  at::Tensor b = at::ones({3}).requires_grad_();
  SGD optimizer({a, b}, 0.1);
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(optimizer.state_dict({"a"})); }),
      "expected one name for each of the optimizer's parameters (names: 1, "
      "parameters: 2)");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(optimizer.state_dict({"a", "a"})); }),
      "two of the optimizer's parameters are named `a`");
}

TEST(ParameterNames, AreFoundByIdentity) {
  at::Tensor a = at::ones({2}).requires_grad_();
  at::Tensor b = at::ones({3}).requires_grad_();
  SGD optimizer({b, a}, 0.1);

  EXPECT_EQ(
      parameter_names(optimizer, {{"a", a}, {"b", b}, {"tied", b}}),
      (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(parameter_names(optimizer, {{"a", a}})); }),
      "the optimizer updates parameters that are not in the model:\n"
      "  parameter 0 of shape [3]");
}

struct Unknown : torch::optim::Optimizer {
  using Optimizer::Optimizer;
  at::Tensor step(LossClosure /*closure*/) override { return {}; }
};

TEST(OptimizerState, RejectsUnknownOptimizers) {
  Unknown optimizer(
      Tensors{at::ones({1})}, std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [&] { static_cast<void>(optimizer_state(optimizer)); }),
      "this optimizer's state cannot be saved or loaded: the optimizer is "
      "neither accelerate's AdamW, Adam or SGD, nor LibTorch's SGD, Adam, "
      "AdamW, "
      "RMSprop, Adagrad or LBFGS");
}

}  // namespace
}  // namespace accelerate
