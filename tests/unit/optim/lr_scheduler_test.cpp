// SPDX-License-Identifier: Apache-2.0
#include "accelerate/lr_scheduler.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/optim.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "optim/scheduler_context.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using Rates = std::vector<double>;

SGD one_group(double lr = 1.0) {
  return SGD({at::ones({1}).requires_grad_()}, lr);
}

SGD two_groups() {
  return SGD(
      std::vector<torch::optim::OptimizerParamGroup>{
          param_group({at::ones({1})}, SGDOptions{.lr = 1.0}),
          param_group({at::ones({1})}, SGDOptions{.lr = 0.5})},
      1.0);
}

double rate_of(
    const torch::optim::Optimizer& optimizer, std::size_t group = 0) {
  return optimizer.param_groups()[group].options().get_lr();
}

Rates rates_over(LRScheduler& scheduler, int steps) {
  Rates rates = {scheduler.get_last_lr()[0]};
  for (int i = 0; i < steps; ++i) {
    scheduler.step();
    rates.push_back(scheduler.get_last_lr()[0]);
  }
  return rates;
}

void expect_near(const Rates& rates, const Rates& expected) {
  ASSERT_EQ(rates.size(), expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], 1e-12 * std::abs(expected[i]))
        << "step " << i;
  }
}

TEST(LambdaLR, MultipliesTheInitialRate) {
  SGD optimizer = one_group(0.5);
  LambdaLR scheduler(optimizer, [](std::int64_t step) {
    return step < 2 ? static_cast<double>(step) / 2 : 1.0;
  });
  // The first rate is set before the first step.
  EXPECT_EQ(rate_of(optimizer), 0);

  expect_near(rates_over(scheduler, 3), {0, 0.25, 0.5, 0.5});

  EXPECT_EQ(rate_of(optimizer), 0.5);
  EXPECT_EQ(scheduler.last_epoch(), 3);
  EXPECT_EQ(scheduler.step_count(), 4);
}

TEST(LambdaLR, HasAFunctionForEachParameterGroup) {
  SGD optimizer = two_groups();
  LambdaLR scheduler(
      optimizer,
      {[](std::int64_t) { return 2.0; },
       [](std::int64_t step) { return static_cast<double>(step); }});
  scheduler.step();
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), (Rates{2.0, 1.0}));
  EXPECT_EQ(rate_of(optimizer, 1), 1.0);

  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        LambdaLR(optimizer, std::vector<LambdaLR::Lambda>{[](std::int64_t) {
                   return 1.0;
                 }});
      }),
      "LambdaLR needs one function for each parameter group (functions: 1, "
      "parameter groups: 2)");
}

TEST(StepLR, DecaysEveryFewSteps) {
  SGD optimizer = one_group();
  StepLR scheduler(optimizer, {.step_size = 3, .gamma = 0.5});
  EXPECT_EQ(
      rates_over(scheduler, 7), (Rates{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25}));
  EXPECT_EQ(
      message_of<ArgumentError>([&] { StepLR(optimizer, {.step_size = 0}); }),
      "`step_size` is 0");
}

TEST(LRScheduler, WorksWithLibTorchOptimizers) {
  torch::optim::Adam adam({at::ones({1})}, torch::optim::AdamOptions(0.5));
  StepLR scheduler(adam, {.step_size = 1, .gamma = 0.1});
  scheduler.step();
  EXPECT_NEAR(rate_of(adam), 0.05, 1e-15);
}

// The values of PyTorch's OneCycleLR with total_steps 10 and max_lr 1.
TEST(OneCycleLR, RisesAndFalls) {
  AdamW optimizer({at::ones({1})}, 0.1);
  OneCycleLR scheduler(optimizer, {.max_lr = {1.0}, .total_steps = 10});
  const auto beta = [&] {
    return dynamic_cast<ParamGroupOptions<AdamWOptions>&>(
               optimizer.param_groups()[0].options())
        .values.betas[0];
  };
  EXPECT_NEAR(beta(), 0.95, 1e-12);

  const Rates rates = rates_over(scheduler, 9);

  const double last = 0.04 / 1e4;
  Rates expected = {0.04, 0.52, 1.0};
  for (int i = 1; i <= 7; ++i) {
    const double fraction = i / 7.0;
    expected.push_back(
        last + (1.0 - last) / 2 * (1 + std::cos(std::numbers::pi * fraction)));
  }
  ASSERT_EQ(rates.size(), expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], 1e-12) << i;
  }
  EXPECT_NEAR(beta(), 0.95, 1e-12);
}

TEST(OneCycleLR, SupportsThreePhasesAndLinearAnnealing) {
  SGD optimizer = one_group();
  OneCycleLR scheduler(
      optimizer,
      {.max_lr = {1.0},
       .total_steps = 20,
       .pct_start = 0.25,
       .anneal_strategy = AnnealStrategy::linear,
       .cycle_momentum = false,
       .div_factor = 10,
       .final_div_factor = 10,
       .three_phase = true});
  const Rates rates = rates_over(scheduler, 19);
  EXPECT_NEAR(rates[0], 0.1, 1e-12);
  EXPECT_NEAR(rates[2], 0.55, 1e-12);
  EXPECT_NEAR(rates[4], 1.0, 1e-12);
  EXPECT_NEAR(rates[6], 0.55, 1e-12);
  EXPECT_NEAR(rates[8], 0.1, 1e-12);
  EXPECT_NEAR(rates[19], 0.01, 1e-12);
}

TEST(OneCycleLR, SetsTheMomentumOfEachKindOfOptimizer) {
  const OneCycleLROptions options = {.max_lr = {1.0}, .total_steps = 10};
  torch::optim::SGD sgd({at::ones({1})}, torch::optim::SGDOptions(0.1));
  torch::optim::Adam adam({at::ones({1})}, torch::optim::AdamOptions(0.1));
  torch::optim::RMSprop rms({at::ones({1})}, torch::optim::RMSpropOptions(0.1));
  OneCycleLR of_sgd(sgd, options);
  OneCycleLR of_adam(adam, options);
  OneCycleLR of_rms(rms, options);
  of_sgd.step();
  of_adam.step();
  of_rms.step();

  const double momentum = of_sgd.get_momentum();
  EXPECT_NEAR(momentum, 0.9, 1e-12);
  const auto options_of_first = [](auto& optimizer) -> auto& {
    return optimizer.param_groups()[0].options();
  };
  EXPECT_EQ(
      static_cast<torch::optim::SGDOptions&>(options_of_first(sgd)).momentum(),
      momentum);
  EXPECT_EQ(
      std::get<0>(
          static_cast<torch::optim::AdamOptions&>(options_of_first(adam))
              .betas()),
      momentum);
  EXPECT_EQ(
      static_cast<torch::optim::RMSpropOptions&>(options_of_first(rms))
          .momentum(),
      momentum);

  torch::optim::Adagrad adagrad({at::ones({1})});
  EXPECT_EQ(
      message_of<ArgumentError>([&] { OneCycleLR(adagrad, options); }),
      "`cycle_momentum` needs an optimizer with `momentum` or `betas`, but "
      "this optimizer has neither");
}

TEST(OneCycleLR, ThrowsPastItsEnd) {
  SGD optimizer = one_group();
  OneCycleLR scheduler(optimizer, {.max_lr = {1.0}, .total_steps = 3});
  rates_over(scheduler, 3);
  const double last = rate_of(optimizer);
  EXPECT_EQ(
      message_of<StateError>([&] { scheduler.step(); }),
      "OneCycleLR took 4 steps, but its `total_steps` is 3");
  EXPECT_EQ(rate_of(optimizer), last);
  EXPECT_EQ(scheduler.last_epoch(), 3);
}

TEST(OneCycleLR, RejectsOptionsOutOfRange) {
  SGD optimizer = one_group();
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { OneCycleLR(optimizer, {.max_lr = {1.0}}); }),
      "`total_steps` is 0");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        OneCycleLR(
            optimizer, {.max_lr = {1.0}, .total_steps = 3, .pct_start = 2});
      }),
      "`pct_start` is 2");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        OneCycleLR(optimizer, {.max_lr = {1.0, 2.0}, .total_steps = 3});
      }),
      "`max_lr` does not match the optimizer (values: 2, parameter groups: 1)");
}

TEST(ReduceLROnPlateau, ReducesAfterItsPatience) {
  SGD optimizer = one_group();
  ReduceLROnPlateau scheduler(
      optimizer, {.factor = 0.5, .patience = 1, .cooldown = 1});
  Rates rates;
  for (const double metric : {1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}) {
    scheduler.step(metric);
    rates.push_back(rate_of(optimizer));
  }
  // Two bad calls reduce the rate, one call is the cooldown, and two more bad
  // calls reduce the rate again.
  EXPECT_EQ(rates, (Rates{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25}));
  EXPECT_EQ(scheduler.best(), 0.9);
}

TEST(ReduceLROnPlateau, RespectsItsModesAndMinimum) {
  SGD optimizer = one_group();
  ReduceLROnPlateau scheduler(
      optimizer,
      {.mode = ReduceLROnPlateauOptions::Mode::max,
       .factor = 0.1,
       .patience = 0,
       .threshold = 0.5,
       .threshold_mode = ReduceLROnPlateauOptions::ThresholdMode::abs,
       .min_lr = {0.05}});
  scheduler.step(1.0);
  scheduler.step(1.6);
  EXPECT_EQ(rate_of(optimizer), 1.0);
  scheduler.step(2.0);
  EXPECT_EQ(rate_of(optimizer), 0.1);
  scheduler.step(2.0);
  scheduler.step(2.0);
  EXPECT_EQ(rate_of(optimizer), 0.05);
}

TEST(ReduceLROnPlateau, NeedsTheMetric) {
  SGD optimizer = one_group();
  ReduceLROnPlateau scheduler(optimizer);
  EXPECT_EQ(
      message_of<StateError>(
          [&] { static_cast<LRScheduler&>(scheduler).step(); }),
      "`ReduceLROnPlateau::step` was called without a metric");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { ReduceLROnPlateau(optimizer, {.factor = 1}); }),
      "`factor` is 1");
}

template <typename Scheduler>
void expect_continues(Scheduler& saved, LRScheduler& loaded) {
  loaded.load_state_dict(Json::parse(saved.state_dict().dump()));
  EXPECT_EQ(loaded.get_last_lr(), saved.get_last_lr());
  EXPECT_EQ(
      loaded.optimizer().param_groups()[0].options().get_lr(),
      saved.get_last_lr()[0]);
  EXPECT_EQ(loaded.last_epoch(), saved.last_epoch());
  EXPECT_EQ(loaded.step_count(), saved.step_count());
}

TEST(LRScheduler, ContinuesFromItsState) {
  SGD a = one_group();
  SGD b = one_group(0.125);
  StepLR saved(a, {.step_size = 2, .gamma = 0.5});
  StepLR loaded(b, {.step_size = 2, .gamma = 0.5});
  rates_over(saved, 3);
  expect_continues(saved, loaded);
  EXPECT_EQ(rates_over(saved, 4), rates_over(loaded, 4));

  SGD c = one_group();
  SGD d = one_group();
  ReduceLROnPlateau plateau(c, {.patience = 1});
  ReduceLROnPlateau fresh(d, {.patience = 1});
  expect_continues(plateau, fresh);  // `best` is still infinite.
  plateau.step(1.0);
  plateau.step(1.0);
  expect_continues(plateau, fresh);
  plateau.step(1.0);
  fresh.step(1.0);
  EXPECT_EQ(rate_of(c), 0.1);
  EXPECT_EQ(rate_of(d), 0.1);
}

TEST(LRScheduler, RejectsAStateThatDoesNotFit) {
  SGD first = one_group();
  SGD second = two_groups();
  StepLR of_one(first, {.step_size = 2});
  StepLR of_two(second, {.step_size = 2});
  EXPECT_EQ(
      message_of<FormatError>(
          [&] { of_one.load_state_dict(of_two.state_dict()); }),
      "the saved scheduler does not match the optimizer (learning rates: 2, "
      "parameter groups: 1)");
  EXPECT_EQ(
      message_of<FormatError>([&] { of_one.load_state_dict(Json::object()); }),
      "the key `_last_lr` is missing");
  EXPECT_EQ(of_one.get_last_lr(), Rates{1.0});
}

struct NoInitialStep : LRScheduler {
  explicit NoInitialStep(torch::optim::Optimizer& optimizer)
      : LRScheduler(optimizer) {}
  std::vector<double> get_lr() const override { return base_lrs_; }
};

TEST(LRScheduler, ThrowsWhenASubclassDidNotCallInitialStep) {
  SGD optimizer = one_group();
  NoInitialStep scheduler(optimizer);
  EXPECT_EQ(
      message_of<StateError>([&] { scheduler.step(); }),
      "`step` was called before the scheduler set its first learning rate");
}

TEST(LRScheduler, PrintsItsRates) {
  SGD optimizer = two_groups();
  StepLR scheduler(optimizer, {.step_size = 2});
  testing::internal::CaptureStdout();
  scheduler.print_lr();
  EXPECT_EQ(
      testing::internal::GetCapturedStdout(),
      "learning rate of parameter group 0: 1\n"
      "learning rate of parameter group 1: 0.5\n");
}

// ---- prepared --------------------------------------------------------------

struct Step {
  bool sync = true;
  bool skipped = false;
};

struct Prepared {
  explicit Prepared(SchedulerContext values) {
    values.sync_gradients = [this] { return now.sync; };
    values.step_was_skipped = [this] { return now.skipped; };
    context = std::make_shared<SchedulerContext>(std::move(values));
  }
  Step now;
  std::shared_ptr<SchedulerContext> context;
};

TEST(PreparedScheduler, StepsOncePerProcess) {
  SGD optimizer = one_group();
  StepLR scheduler(optimizer, {.step_size = 1, .gamma = 0.5});
  Prepared prepared({.data_parallel_size = 3});
  scheduler.attach(prepared.context);
  scheduler.step();
  EXPECT_EQ(rate_of(optimizer), 0.125);
}

TEST(PreparedScheduler, StepsOnceWithSplitBatchesOrPerOptimizerStep) {
  for (const SchedulerContext& context : std::vector<SchedulerContext>{
           {.data_parallel_size = 3, .split_batches = true},
           {.data_parallel_size = 3,
            .unit = SchedulerUnit::per_optimizer_step}}) {
    SGD optimizer = one_group();
    StepLR scheduler(optimizer, {.step_size = 1, .gamma = 0.5});
    Prepared prepared(context);
    scheduler.attach(prepared.context);
    scheduler.step();
    EXPECT_EQ(rate_of(optimizer), 0.5);
  }
}

TEST(PreparedScheduler, OnlyCountsMicroSteps) {
  for (const bool adjust : {true, false}) {
    SGD optimizer = one_group();
    StepLR scheduler(optimizer, {.step_size = 1, .gamma = 0.5});
    Prepared prepared({.data_parallel_size = 2, .adjust_scheduler = adjust});
    scheduler.attach(prepared.context);
    prepared.now.sync = false;
    scheduler.step();
    EXPECT_EQ(rate_of(optimizer), 1);
    EXPECT_EQ(scheduler.last_epoch(), 0);
    EXPECT_EQ(scheduler.step_count(), adjust ? 2 : 1);
  }
}

TEST(PreparedScheduler, DoesNothingWhenTheOptimizerSkipped) {
  SGD optimizer = one_group();
  StepLR scheduler(optimizer, {.step_size = 1, .gamma = 0.5});
  Prepared prepared({});
  scheduler.attach(prepared.context);
  prepared.now.skipped = true;
  scheduler.step();
  EXPECT_EQ(rate_of(optimizer), 1);
  EXPECT_EQ(scheduler.step_count(), 1);
}

TEST(PreparedScheduler, StepsOncePerCallWithoutStepWithOptimizer) {
  SGD optimizer = one_group();
  StepLR scheduler(optimizer, {.step_size = 1, .gamma = 0.5});
  Prepared prepared({.data_parallel_size = 4, .step_with_optimizer = false});
  scheduler.attach(prepared.context);
  prepared.now = {.sync = false, .skipped = true};
  scheduler.step();
  EXPECT_EQ(rate_of(optimizer), 0.5);

  scheduler.attach(nullptr);
  EXPECT_FALSE(scheduler.is_attached());
  scheduler.step();
  EXPECT_EQ(rate_of(optimizer), 0.25);
}

TEST(PreparedScheduler, StopsOneCycleAtItsEnd) {
  SGD optimizer = one_group();
  for (const std::int64_t processes : {1, 2}) {
    OneCycleLR scheduler(optimizer, {.max_lr = {1.0}, .total_steps = 5});
    Prepared prepared({.data_parallel_size = processes});
    scheduler.attach(prepared.context);
    for (int i = 0; i < 7; ++i) {
      scheduler.step();
    }
    EXPECT_EQ(scheduler.last_epoch(), 5);
  }
}

TEST(PreparedScheduler, StepsAPlateauOncePerCall) {
  SGD optimizer = one_group();
  ReduceLROnPlateau scheduler(optimizer, {.patience = 1});
  Prepared prepared({.data_parallel_size = 8});
  scheduler.attach(prepared.context);
  scheduler.step(1.0);
  scheduler.step(1.0);
  EXPECT_EQ(scheduler.num_bad_epochs(), 1);
  EXPECT_EQ(rate_of(optimizer), 1);
}

TEST(PreparedScheduler, DescribesItsUnit) {
  EXPECT_EQ(
      describe_unit({.data_parallel_size = 4}),
      "note: prepare(scheduler): each optimizer step advances the scheduler by "
      "4 steps, one per process (with XLA, one per device); to advance it by "
      "only one step, set "
      "`scheduler_unit = SchedulerUnit::per_optimizer_step`");
}

// ---- adapted ---------------------------------------------------------------

TEST(AdaptedScheduler, StepsOncePerProcess) {
  SGD optimizer = one_group();
  torch::optim::StepLR libtorch_scheduler(optimizer, 1, 0.5);
  AdaptedScheduler scheduler = adapt(libtorch_scheduler, optimizer);
  Prepared prepared({.data_parallel_size = 2});
  scheduler.attach(prepared.context);

  scheduler.step();
  scheduler.step();
  // The first step of a LibTorch scheduler does not decay.
  EXPECT_EQ(rate_of(optimizer), 0.125);
  EXPECT_EQ(scheduler.get_last_lr(), Rates{0.125});
  EXPECT_EQ(scheduler.last_epoch(), 4);
}

TEST(AdaptedScheduler, ContinuesFromItsState) {
  SGD a = one_group();
  SGD b = one_group();
  torch::optim::StepLR libtorch_a(a, 3, 0.5);
  torch::optim::StepLR libtorch_b(b, 3, 0.5);
  AdaptedScheduler saved = adapt(libtorch_a, a);
  AdaptedScheduler loaded = adapt(libtorch_b, b);
  rates_over(saved, 4);
  expect_continues(saved, loaded);
  EXPECT_EQ(rates_over(saved, 6), rates_over(loaded, 6));
}

}  // namespace
}  // namespace accelerate
