// SPDX-License-Identifier: Apache-2.0
#include "training/accumulation.h"

#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

void check_steps(std::int64_t steps) {
  if (steps < 1) {
    throw ArgumentError(
        str_cat("`gradient_accumulation_steps` is ", steps), "pass 1 or more");
  }
}

double total_weight(const Group& group, double local_weight) {
  return group.reduce({at::full({1}, local_weight, at::kDouble)})[0]
      .item<double>();
}

const char* name_of(AccumulationWeighting weighting) {
  switch (weighting) {
    case AccumulationWeighting::fixed:
      return "fixed";
    case AccumulationWeighting::group:
      return "group";
    case AccumulationWeighting::weighted:
      return "weighted";
  }
  throw InternalError("unknown accumulation weighting");
}

}  // namespace

Accumulation::Accumulation(const GradientAccumulationPlugin& plugin)
    : plugin_(plugin) {
  check_steps(plugin.num_steps);
}

void Accumulation::set_num_steps(std::int64_t steps) {
  check_steps(steps);
  plugin_.num_steps = steps;
}

void Accumulation::begin_micro_step(
    GradientState& state, std::optional<double> weight) {
  const bool weighted = plugin_.weighting == AccumulationWeighting::weighted;
  if (weight.has_value() != weighted) {
    throw ArgumentError(
        weighted ? "accumulate() got no weight, but `weighting` is `weighted`"
                 : "accumulate() got a weight, but `weighting` is not "
                   "`weighted`",
        weighted ? "pass the weight of this micro-batch, such as its "
                   "number of tokens"
                 : "set GradientAccumulationPlugin::weighting to "
                   "AccumulationWeighting::weighted, or leave out the weight");
  }
  if (weight && !(*weight >= 0 && std::isfinite(*weight))) {
    throw ArgumentError(
        str_cat("accumulate() got a weight of ", *weight),
        "pass a finite number, 0 or more");
  }
  if (state.sync_gradients) {
    in_group_ = 0;
    group_weight_ = 0;
  }
  if (plugin_.sync_with_dataloader && state.end_of_dataloader()) {
    step_ = 0;
    state.sync_gradients = true;
  } else {
    ++step_;
    state.sync_gradients = step_ % plugin_.num_steps == 0;
  }
  ++in_group_;
  weight_ = weight.value_or(1);
  group_weight_ += weight_;
  incomplete_ = state.sync_gradients && in_group_ < plugin_.num_steps;
}

double Accumulation::loss_factor() const {
  return plugin_.weighting == AccumulationWeighting::fixed
             ? 1.0 / static_cast<double>(plugin_.num_steps)
             : weight_;
}

double Accumulation::gradient_factor(const Group& group) const {
  if (plugin_.weighting == AccumulationWeighting::fixed) {
    return 1;
  }
  const double sum = total_weight(group, group_weight_);
  // Cancels the reducer's division by the number of ranks.
  return sum > 0 ? group.size() / sum : 1;
}

double Accumulation::local_gradient_factor() const {
  return plugin_.weighting != AccumulationWeighting::fixed && group_weight_ > 0
             ? 1 / group_weight_
             : 1;
}

void Accumulation::join_gradient_factor(const Group& group) const {
  if (plugin_.weighting != AccumulationWeighting::fixed) {
    total_weight(group, 0);
  }
}

void Accumulation::restart() {
  *this = Accumulation(plugin_);
}

Json Accumulation::state_dict() const {
  return Json::object(
      {{"step", step_},
       {"in_group", in_group_},
       {"num_steps", plugin_.num_steps},
       {"weighting", name_of(plugin_.weighting)}});
}

void Accumulation::load_state_dict(const Json& state) {
  step_ = state.at("step").as_integer();
  in_group_ = state.at("in_group").as_integer();
  incomplete_ = false;
}

// Only fixed weights depend on the number of micro-steps in a group.
std::string Accumulation::incompatibility(const Json& state) const {
  const Json* weighting = state.find("weighting");
  const Json* steps = state.find("num_steps");
  if (weighting == nullptr || steps == nullptr) {
    return {};  // The state was saved by a version without these fields.
  }
  const bool fixed = plugin_.weighting == AccumulationWeighting::fixed;
  if (weighting->as_string() == name_of(plugin_.weighting) &&
      (!fixed || steps->as_integer() == plugin_.num_steps)) {
    return {};
  }
  return str_cat(
      "the checkpoint was saved in the middle of gradient "
      "accumulation with `num_steps = ",
      steps->as_integer(),
      "` and weighting `",
      weighting->as_string(),
      "`, but this run uses `num_steps = ",
      plugin_.num_steps,
      "` and weighting `",
      name_of(plugin_.weighting),
      "`");
}

}  // namespace accelerate
