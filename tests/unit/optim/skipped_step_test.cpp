// SPDX-License-Identifier: Apache-2.0
// A step without gradients, or a step that overflowed, must not change any bit
// of the parameters or the optimizer state.
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/optim.h>

#include "accelerate/grad_scaler.h"
#include "accelerate/optim.h"
#include "accelerate/optimizer_state.h"
#include "unit/optim/parameter_fixtures.h"

namespace accelerate {
namespace {

using OptimizerPtr = std::unique_ptr<torch::optim::Optimizer>;

struct Candidate {
  std::string name;
  std::function<OptimizerPtr(const Tensors&)> make;
};

void PrintTo(const Candidate& candidate, std::ostream* out) {
  *out << candidate.name;
}

template <typename Optimizer, typename Options>
Candidate candidate(const std::string& name, const Options& options) {
  return {name, [options](const Tensors& parameters) -> OptimizerPtr {
            return std::make_unique<Optimizer>(parameters, options);
          }};
}

std::vector<Candidate> accelerate_candidates() {
  return {
      candidate<AdamW>("AdamW", AdamWOptions{.lr = 0.1, .amsgrad = true}),
      candidate<Adam>("Adam", AdamOptions{.lr = 0.1, .weight_decay = 0.1}),
      candidate<SGD>("SGD", SGDOptions{.lr = 0.1, .weight_decay = 0.1}),
      candidate<SGD>("SGDMomentum", SGDOptions{.lr = 0.1, .momentum = 0.9}),
      candidate<SGD>(
          "SGDDampening",
          SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}),
      candidate<SGD>(
          "SGDNesterov",
          SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
  };
}

std::vector<Candidate> libtorch_candidates() {
  using namespace torch::optim;
  return {
      candidate<torch::optim::AdamW>(
          "LibTorchAdamW", torch::optim::AdamWOptions(0.1).amsgrad(true)),
      candidate<torch::optim::Adam>(
          "LibTorchAdam", torch::optim::AdamOptions(0.1).weight_decay(0.1)),
      candidate<torch::optim::SGD>(
          "LibTorchSGD",
          torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1)),
      candidate<RMSprop>(
          "LibTorchRMSprop", RMSpropOptions(0.1).momentum(0.9).centered(true)),
      candidate<Adagrad>("LibTorchAdagrad", AdagradOptions(0.1).lr_decay(0.1)),
  };
}

std::vector<Candidate> all_candidates() {
  auto all = accelerate_candidates();
  for (auto& candidate : libtorch_candidates()) {
    all.push_back(std::move(candidate));
  }
  return all;
}

// Everything that a step may change.
struct Snapshot {
  Tensors parameters;
  std::map<std::string, at::Tensor> tensors;
  Json scalars;
};

Snapshot snapshot(
    const Tensors& parameters, const torch::optim::Optimizer& optimizer) {
  Snapshot result;
  result.parameters = copies(parameters);
  const OptimizerState state = optimizer_state(optimizer);
  for (const auto& [name, tensor] : state.tensors) {
    result.tensors[name] = tensor.clone();
  }
  result.scalars = state.scalars;
  return result;
}

void expect_same(const Snapshot& before, const Snapshot& after) {
  expect_bitwise_equal(before.parameters, after.parameters);
  ASSERT_EQ(before.tensors.size(), after.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    EXPECT_TRUE(bitwise_equal(tensor, after.tensors.at(name))) << name;
  }
  EXPECT_EQ(before.scalars, after.scalars);
}

void train(Tensors& parameters, torch::optim::Optimizer& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

class SkippedStep : public testing::TestWithParam<Candidate> {};

TEST_P(SkippedStep, ChangesNothingWithoutGradients) {
  for (const int steps_before : {0, 8}) {
    Tensors parameters = make_parameters();
    const OptimizerPtr optimizer = GetParam().make(parameters);
    train(parameters, *optimizer, steps_before);
    optimizer->zero_grad();
    const Snapshot before = snapshot(parameters, *optimizer);

    optimizer->step();
    optimizer->zero_grad();

    expect_same(before, snapshot(parameters, *optimizer));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    SkippedStep,
    testing::ValuesIn(all_candidates()),
    [](const auto& test) { return test.param.name; });

class OverflowedStep : public testing::TestWithParam<Candidate> {};

TEST_P(OverflowedStep, ChangesNothing) {
  Tensors parameters = make_parameters();
  const OptimizerPtr optimizer = GetParam().make(parameters);
  auto& fused = dynamic_cast<FusedOptimizer&>(*optimizer);
  const at::Tensor found_inf = at::zeros({1});
  fused.set_scale({}, found_inf);
  train(parameters, *optimizer, 8);
  const Snapshot before = snapshot(parameters, *optimizer);

  found_inf.fill_(1);
  set_gradients(parameters, 9);
  parameters[0].mutable_grad() = at::full({5, 3}, INFINITY);
  optimizer->step();

  expect_same(before, snapshot(parameters, *optimizer));
}

// A first step that overflows may create state, but the state must equal the
// state that the next step would have created.
TEST_P(OverflowedStep, LeavesNoTraceInTheFirstStep) {
  Tensors skipped = make_parameters();
  Tensors plain = make_parameters();
  const OptimizerPtr with_skip = GetParam().make(skipped);
  const OptimizerPtr without = GetParam().make(plain);
  const at::Tensor found_inf = at::ones({1});
  dynamic_cast<FusedOptimizer&>(*with_skip).set_scale({}, found_inf);

  set_gradients(skipped, 100);
  with_skip->step();
  expect_bitwise_equal(skipped, make_parameters());
  found_inf.zero_();
  train(skipped, *with_skip, 8);
  train(plain, *without, 8);

  expect_bitwise_equal(skipped, plain);
}

INSTANTIATE_TEST_SUITE_P(
    Accelerate,
    OverflowedStep,
    testing::ValuesIn(accelerate_candidates()),
    [](const auto& test) { return test.param.name; });

class ScaledTraining : public testing::TestWithParam<Candidate> {};

// End to end: the scaler's flag skips the step without being read by the CPU.
TEST_P(ScaledTraining, SkipsExactlyTheOverflowedSteps) {
  Tensors scaled = make_parameters();
  Tensors plain = make_parameters();
  const OptimizerPtr optimizer = GetParam().make(scaled);
  const OptimizerPtr reference = GetParam().make(plain);
  GradScaler scaler({.init_scale = 1024});
  dynamic_cast<FusedOptimizer&>(*optimizer)
      .set_scale({}, scaler.found_inf(optimizer.get()));

  for (int step = 0; step < 12; ++step) {
    const bool bad = step % 4 == 0;
    set_gradients(scaled, step);
    for (at::Tensor& parameter : scaled) {
      if (parameter.grad().defined()) {
        parameter.mutable_grad() =
            parameter.grad() * (bad ? INFINITY : scaler.get_scale());
      }
    }
    scaler.unscale_(*optimizer);
    scaler.update();
    optimizer->step();
    EXPECT_EQ(scaler.step_was_skipped(), bad);
    if (!bad) {
      set_gradients(plain, step);
      reference->step();
    }
  }

  expect_bitwise_equal(scaled, plain);
  EXPECT_EQ(scaler.get_scale(), 128);
}

INSTANTIATE_TEST_SUITE_P(
    Accelerate,
    ScaledTraining,
    testing::ValuesIn(accelerate_candidates()),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace accelerate
