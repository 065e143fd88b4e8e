// SPDX-License-Identifier: Apache-2.0
#include "transformers/optimization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/zeros.h>
#include <torch/optim/sgd.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::Json;
using accelerate::StateError;

/// Two parameter groups with the learning rates of
/// tests/parity/make_schedulers.py.
torch::optim::SGD two_groups() {
  const auto group = [](double lr) {
    return torch::optim::OptimizerParamGroup(
        {at::zeros({1})}, std::make_unique<torch::optim::SGDOptions>(lr));
  };
  return torch::optim::SGD(
      std::vector{group(0.1), group(0.02)}, torch::optim::SGDOptions(0.1));
}

template <typename Value>
void set(std::optional<Value>& option, const Json& options, const char* name) {
  const Json* value = options.find(name);
  if (value == nullptr) {
    return;
  }
  if constexpr (std::is_same_v<Value, std::string>) {
    option = value->as_string();
  } else if constexpr (std::is_same_v<Value, double>) {
    option = value->as_double();
  } else {
    option = value->as_integer();
  }
}

SchedulerOptions options_of(const Json& json) {
  SchedulerOptions options;
  set(options.num_warmup_steps, json, "num_warmup_steps");
  set(options.num_training_steps, json, "num_training_steps");
  set(options.num_cycles, json, "num_cycles");
  set(options.power, json, "power");
  set(options.lr_end, json, "lr_end");
  set(options.min_lr, json, "min_lr");
  set(options.min_lr_rate, json, "min_lr_rate");
  set(options.warmup_lr_rate, json, "warmup_lr_rate");
  set(options.timescale, json, "timescale");
  set(options.num_decay_steps, json, "num_decay_steps");
  set(options.num_stable_steps, json, "num_stable_steps");
  set(options.warmup_type, json, "warmup_type");
  set(options.decay_type, json, "decay_type");
  set(options.min_lr_ratio, json, "min_lr_ratio");
  return options;
}

std::vector<double> rates_of(const Json& json) {
  std::vector<double> rates;
  if (json.is_number()) {
    return {json.as_double()};
  }
  for (const Json& rate : json.as_array()) {
    rates.push_back(rate.as_double());
  }
  return rates;
}

GreedyLROptions greedy_options_of(const Json& json) {
  GreedyLROptions options;
  const auto read = [&](const char* name, auto& option, auto convert) {
    if (const Json* value = json.find(name)) {
      option = convert(*value);
    }
  };
  const auto integer = [](const Json& value) { return value.as_integer(); };
  const auto real = [](const Json& value) { return value.as_double(); };
  read("mode", options.mode, [](const Json& value) {
    return value.as_string() == "max" ? GreedyLROptions::Mode::max
                                      : GreedyLROptions::Mode::min;
  });
  read("threshold_mode", options.threshold_mode, [](const Json& value) {
    return value.as_string() == "rel" ? GreedyLROptions::ThresholdMode::rel
                                      : GreedyLROptions::ThresholdMode::abs;
  });
  read("factor", options.factor, real);
  read("patience", options.patience, integer);
  read("threshold", options.threshold, real);
  read("cooldown", options.cooldown, integer);
  read("warmup", options.warmup, integer);
  read("min_lr", options.min_lr, rates_of);
  read("max_lr", options.max_lr, rates_of);
  read("eps", options.eps, real);
  read("smooth", options.smooth, [](const Json& v) { return v.as_bool(); });
  read("window_size", options.window_size, integer);
  read("reset_start", options.reset_start, integer);
  return options;
}

Json golden_schedules() {
  const std::string path = ACCELERATE_GOLDEN "/schedulers.json";
  return Json::parse(accelerate::read_file(path, 1 << 20), {.source = path});
}

TEST(GetScheduler, SetsTheSameRatesAsHuggingFaceTransformers) {
  const Json cases = golden_schedules();
  ASSERT_GE(cases.size(), 20U);
  for (const Json& golden : cases.as_array()) {
    if (golden.contains("metrics")) {
      continue;  // See `GreedySetsTheSameRatesAsHuggingFaceTransformers`.
    }
    SCOPED_TRACE(golden.at("name").as_string() + golden.at("options").dump());
    auto optimizer = two_groups();
    auto scheduler = get_scheduler(
        golden.at("name").as_string(),
        optimizer,
        options_of(golden.at("options")));
    for (const Json& expected : golden.at("lr").as_array()) {
      const auto& rates = scheduler.get_last_lr();
      EXPECT_NEAR(rates.at(0), expected.at(0).as_double(), 1e-15);
      EXPECT_NEAR(rates.at(1), expected.at(1).as_double(), 1e-15);
      scheduler.step();
    }
  }
}

TEST(GetScheduler, GreedySetsTheSameRatesAsHuggingFaceTransformers) {
  const Json all = golden_schedules();
  int cases = 0;
  for (const Json& golden : all.as_array()) {
    const Json* metrics = golden.find("metrics");
    if (metrics == nullptr) {
      continue;
    }
    ++cases;
    SCOPED_TRACE(golden.at("options").dump());
    const SchedulerOptions options{
        .greedy = greedy_options_of(golden.at("options"))};
    auto optimizer = two_groups();
    auto scheduler = get_scheduler("greedy", optimizer, options);
    for (std::size_t i = 0; i < metrics->size(); ++i) {
      const Json& expected = golden.at("lr").at(i);
      EXPECT_NEAR(
          scheduler.get_last_lr()[0],
          expected.at(std::size_t{0}).as_double(),
          1e-15);
      EXPECT_NEAR(
          optimizer.param_groups()[1].options().get_lr(),
          expected.at(1).as_double(),
          1e-15);
      scheduler.step(metrics->at(i).as_double());

      // A schedule that is restored from the state returns the same rates.
      auto other_optimizer = two_groups();
      auto other = get_scheduler("greedy", other_optimizer, options);
      other.load_state_dict(scheduler.state_dict());
      ASSERT_EQ(other.state_dict(), scheduler.state_dict());
      ASSERT_EQ(other.get_last_lr(), scheduler.get_last_lr());
    }
  }
  EXPECT_EQ(cases, 7);
}

TEST(GetScheduler, EveryNameExceptPlateauIsInTheGoldenFile) {
  const Json cases = golden_schedules();
  std::vector<std::string> names = scheduler_names();
  for (const Json& golden : cases.as_array()) {
    std::erase(names, golden.at("name").as_string());
  }
  EXPECT_THAT(names, testing::ElementsAre("reduce_lr_on_plateau"));
}

TEST(GetScheduler, ContinuesFromItsState) {
  auto first_optimizer = two_groups();
  const SchedulerOptions options{
      .num_warmup_steps = 2, .num_training_steps = 9};
  auto first = get_scheduler("cosine", first_optimizer, options);
  for (int i = 0; i < 5; ++i) {
    first.step();
  }

  auto second_optimizer = two_groups();
  auto second = get_scheduler("cosine", second_optimizer, options);
  second.load_state_dict(first.state_dict());

  EXPECT_EQ(second.get_last_lr(), first.get_last_lr());
  EXPECT_EQ(
      second_optimizer.param_groups()[1].options().get_lr(),
      first_optimizer.param_groups()[1].options().get_lr());
  first.step();
  second.step();
  EXPECT_EQ(second.get_last_lr(), first.get_last_lr());
}

TEST(GetScheduler, PlateauStepsWithAMetric) {
  auto optimizer = two_groups();
  auto scheduler = get_scheduler(
      "reduce_lr_on_plateau", optimizer, {.plateau = {{.patience = 1}}});

  scheduler.step(1.0);
  scheduler.step(1.0);
  EXPECT_THAT(scheduler.get_last_lr(), testing::ElementsAre(0.1, 0.02));
  scheduler.step(1.0);

  EXPECT_NEAR(scheduler.get_last_lr()[0], 0.01, 1e-15);
  EXPECT_NEAR(optimizer.param_groups()[1].options().get_lr(), 0.002, 1e-15);
  EXPECT_THROW(scheduler.step(), StateError);
}

TEST(GetScheduler, GreedyNeedsAMetric) {
  auto optimizer = two_groups();
  auto scheduler = get_scheduler("greedy", optimizer);

  EXPECT_THROW(scheduler.step(), StateError);
}

TEST(GetScheduler, OtherSchedulesRejectAMetric) {
  auto optimizer = two_groups();
  auto scheduler = get_scheduler("constant", optimizer);

  EXPECT_THROW(scheduler.step(0.5), StateError);
}

struct BadOptions {
  const char* name;
  SchedulerOptions options;
  const char* text;
};

TEST(GetScheduler, RejectsMissingUnusedAndInvalidOptions) {
  const std::vector<BadOptions> cases{
      {"liner", {}, "there is no schedule named `liner`"},
      {"linear", {.num_training_steps = 3}, "needs `num_warmup_steps`"},
      {"linear", {.num_warmup_steps = 3}, "needs `num_training_steps`"},
      {"linear",
       {.num_warmup_steps = -1, .num_training_steps = 3},
       "`num_warmup_steps` for the schedule `linear` is -1"},
      {"linear",
       {.num_warmup_steps = 0, .num_training_steps = 3, .power = 2.0},
       "`linear` does not use `power`"},
      {"constant",
       {.plateau = accelerate::ReduceLROnPlateauOptions()},
       "`constant` does not use `plateau`"},
      {"constant",
       {.greedy = GreedyLROptions()},
       "`constant` does not use `greedy`"},
      {"greedy", {.power = 2.0}, "`greedy` does not use `power`"},
      {"greedy", {.greedy = {{.factor = 1}}}, "`factor` is 1"},
      {"greedy",
       {.greedy = {{.min_lr = {0.1, 0.2, 0.3}}}},
       "`min_lr` does not match the optimizer (values: 3, parameter groups: "
       "2)"},
      {"greedy",
       {.greedy = {{.smooth = true, .window_size = 0}}},
       "`window_size` is 0"},
      {"polynomial",
       {.num_warmup_steps = 0, .num_training_steps = 3, .lr_end = 0.5},
       "`lr_end` for the schedule `polynomial` is 0.5"},
      {"inverse_sqrt",
       {.num_warmup_steps = 0, .timescale = 0},
       "`timescale` for the schedule `inverse_sqrt` is 0"},
      {"cosine_with_min_lr",
       {.num_warmup_steps = 0, .num_training_steps = 3},
       "needs exactly one of `min_lr` and `min_lr_rate`"},
      {"warmup_stable_decay",
       {.num_warmup_steps = 2, .num_training_steps = 3},
       "needs `num_decay_steps`"},
      {"warmup_stable_decay",
       {.num_warmup_steps = 2, .num_training_steps = 3, .num_decay_steps = 2},
       "exceeds `num_training_steps` (3)"},
      {"warmup_stable_decay",
       {.num_warmup_steps = 0,
        .num_training_steps = 3,
        .num_decay_steps = 2,
        .decay_type = "steep"},
       "`decay_type` for the schedule `warmup_stable_decay` is \"steep\""},
  };
  for (const auto& [name, options, text] : cases) {
    auto optimizer = two_groups();
    try {
      (void)get_scheduler(name, optimizer, options);
      ADD_FAILURE() << name << " was accepted: " << text;
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  }
}

}  // namespace
}  // namespace transformers
