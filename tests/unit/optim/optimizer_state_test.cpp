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
#include "unit/optim/twins.h"

namespace accelerate {
namespace {

struct Stateful {
  std::string name;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors&)> make;
};

void PrintTo(const Stateful& one, std::ostream* out) {
  *out << one.name;
}

template <typename Optimizer, typename Options>
Stateful stateful(const std::string& name, const Options& options) {
  return {name, [options](const Tensors& parameters) {
            return std::make_unique<Optimizer>(parameters, options);
          }};
}

std::vector<Stateful> all_stateful() {
  namespace theirs = torch::optim;
  return {
      stateful<AdamW>("AdamW", AdamWOptions{.lr = 0.1, .amsgrad = true}),
      stateful<Adam>("Adam", AdamOptions{.lr = 0.1, .weight_decay = 0.1}),
      stateful<SGD>("SGD", SGDOptions{.lr = 0.1, .momentum = 0.9}),
      stateful<SGD>(
          "SGDDampening",
          SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}),
      stateful<theirs::AdamW>(
          "TheirAdamW", theirs::AdamWOptions(0.1).amsgrad(true)),
      stateful<theirs::Adam>("TheirAdam", theirs::AdamOptions(0.1)),
      stateful<theirs::SGD>("TheirSGD", theirs::SGDOptions(0.1).momentum(0.9)),
      stateful<theirs::RMSprop>(
          "TheirRMSprop",
          theirs::RMSpropOptions(0.1).momentum(0.9).centered(true)),
      stateful<theirs::Adagrad>(
          "TheirAdagrad", theirs::AdagradOptions(0.1).lr_decay(0.1)),
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

// As after a file: other tensor objects, JSON through text.
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
  train_steps(resumed, *other, 50, 53);  // State that has to go.
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
    [](const auto& one) { return one.param.name; });

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

TEST(OptimizerState, IsSharedWithLibTorchsOptimizerOfTheSameName) {
  Tensors ours = make_parameters();
  Tensors theirs = make_parameters();
  AdamW our_optimizer(ours, 0.01);
  torch::optim::AdamW their_optimizer(theirs, 0.5);
  train_steps(ours, our_optimizer, 0, 6);
  copy_into(ours, theirs);

  load_optimizer_state(
      their_optimizer, through_a_file(optimizer_state(our_optimizer)));
  train_steps(ours, our_optimizer, 6, 12);
  train_steps(theirs, their_optimizer, 6, 12);

  EXPECT_LE(largest_difference(ours, theirs), 1e-6);
}

TEST(OptimizerState, KeepsCountersJoinedAfterALoad) {
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

TEST(OptimizerState, SaysEverythingThatDoesNotFitAndChangesNothing) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters, 0.01);
  train_steps(parameters, optimizer, 0, 7);
  OptimizerState state = through_a_file(optimizer.state_dict(kNames));
  const std::string before = optimizer.state_dict(kNames).scalars.dump();
  state.tensors.erase("head.exp_avg");
  state.tensors["scale.exp_avg"] = at::ones({2});
  state.tensors["stranger"] = at::ones({1});
  state.scalars["state"]["gone"] = Json::object({{"step", 1}});
  state.scalars["state"]["first.bias"]["step"] = "two";

  EXPECT_EQ(
      message_of<FormatError>(
          [&] { optimizer.load_state_dict(state, kNames); }),
      "the saved optimizer state does not fit:\n"
      "  `step` of `first.bias`: expected an integer, found a string\n"
      "  tensor `scale.exp_avg` has shape [2], the parameter has []\n"
      "  tensor `head.exp_avg` is missing\n"
      "  the optimizer has no parameter `gone`\n"
      "  tensor `stranger` belongs to nothing");
  EXPECT_EQ(optimizer.state_dict(kNames).scalars.dump(), before);
}

TEST(OptimizerState, RefusesAnotherOptimizersState) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  AdamW adamw({weight}, 0.1);
  SGD sgd({weight}, 0.1);
  EXPECT_EQ(
      message_of<FormatError>([&] { sgd.load_state_dict(adamw.state_dict()); }),
      "the saved state is that of `AdamW`, not of `SGD`");
}

/// An optimizer that has its state where nobody else looks.
class Foreign : public torch::optim::SGD, public StatefulOptimizer {
 public:
  using SGD::SGD;

  OptimizerState save_optimizer_state(
      const std::vector<std::string>& names) const override {
    OptimizerState state;
    state.tensors[names.at(0) + ".memory"] = memory;
    state.scalars = Json::object({{"optimizer", "Foreign"}});
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

TEST(OptimizerState, AsksAnOptimizerThatKeepsItsOwn) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  Foreign one({weight}, 0.1);
  one.memory.fill_(7);
  Foreign other({weight}, 0.1);

  const OptimizerState state = optimizer_state(one, {"weight"});
  load_optimizer_state(other, state, {"weight"});

  EXPECT_EQ(state.scalars.at("optimizer").as_string(), "Foreign");
  EXPECT_TRUE(other.memory.equal(one.memory));
}

TEST(OptimizerState, RefusesOtherGroups) {
  at::Tensor a = at::ones({2}).requires_grad_();
  at::Tensor b = at::ones({2}).requires_grad_();
  SGD one({a, b}, 0.1);
  SGD two(
      std::vector<torch::optim::OptimizerParamGroup>{
          param_group({a}, SGDOptions{}), param_group({b}, SGDOptions{})},
      0.1);
  EXPECT_EQ(
      message_of<FormatError>([&] { one.load_state_dict(two.state_dict()); }),
      "the saved optimizer state does not fit:\n"
      "  it has 2 parameter groups, the optimizer 1");
  EXPECT_EQ(
      message_of<FormatError>(
          [&] { one.load_state_dict(one.state_dict({"a", "b"}), {"a", "c"}); }),
      "the saved optimizer state does not fit:\n"
      "  group 0 is [\"a\",\"b\"], in the optimizer it is [\"a\",\"c\"]");
}

TEST(OptimizerState, RefusesToMaximizeWithLibTorch) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  SGD ours({weight}, SGDOptions{.maximize = true});
  torch::optim::SGD theirs({weight}, 0.1);
  EXPECT_EQ(
      message_of<FormatError>(
          [&] { load_optimizer_state(theirs, ours.state_dict()); }),
      "the saved optimizer maximizes, which LibTorch's cannot");
}

TEST(OptimizerState, ChecksNames) {
  at::Tensor a = at::ones({2}).requires_grad_();
  at::Tensor b = at::ones({3}).requires_grad_();
  SGD optimizer({a, b}, 0.1);
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(optimizer.state_dict({"a"})); }),
      "1 names were given for 2 parameters of the optimizer");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(optimizer.state_dict({"a", "a"})); }),
      "two parameters of the optimizer are named `a`");
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

TEST(OptimizerState, RefusesOptimizersItDoesNotKnow) {
  Unknown optimizer(
      Tensors{at::ones({1})}, std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [&] { static_cast<void>(optimizer_state(optimizer)); }),
      "the state of this optimizer is not known: it is neither AdamW, Adam or "
      "SGD of accelerate nor SGD, Adam, AdamW, RMSprop, Adagrad or LBFGS of "
      "LibTorch");
}

}  // namespace
}  // namespace accelerate
