// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <torch/optim/optimizer.h>

#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "base/str_cat.h"
#include "optim/per_param_group.h"

namespace accelerate {
namespace {

using Options = ReduceLROnPlateauOptions;

double worst(Options::Mode mode) {
  const double infinity = std::numeric_limits<double>::infinity();
  return mode == Options::Mode::min ? infinity : -infinity;
}

// JSON has no infinities.
Json best_as_json(double best) {
  return std::isfinite(best) ? Json(best) : Json(nullptr);
}

}  // namespace

std::vector<double> per_param_group(
    std::string_view option,
    const std::vector<double>& values,
    std::size_t groups) {
  if (values.size() == 1) {
    return std::vector<double>(groups, values.front());
  }
  if (values.size() != groups) {
    throw ArgumentError(
        str_cat(
            "`",
            option,
            "` does not match the optimizer (values: ",
            values.size(),
            ", parameter groups: ",
            groups,
            ")"),
        "pass one value, or one for each parameter group");
  }
  return values;
}

ReduceLROnPlateau::ReduceLROnPlateau(
    torch::optim::Optimizer& optimizer, const Options& options)
    : LRScheduler(optimizer), options_(options), best_(worst(options.mode)) {
  if (!(options.factor < 1)) {
    throw ArgumentError(
        str_cat("`factor` is ", options.factor), "pass a number below 1");
  }
  options_.min_lr = per_param_group("min_lr", options.min_lr, base_lrs_.size());
  last_epoch_ = 0;
  step_count_ = 1;
  last_lr_ = current_lr();
}

void ReduceLROnPlateau::step() {
  throw StateError(
      "`ReduceLROnPlateau::step` was called without a metric",
      "pass the metric: `scheduler.step(loss)`");
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool smaller = options_.mode == Options::Mode::min;
  if (options_.threshold_mode == Options::ThresholdMode::rel) {
    return smaller ? metric < best_ * (1 - options_.threshold)
                   : metric > best_ * (1 + options_.threshold);
  }
  return smaller ? metric < best_ - options_.threshold
                 : metric > best_ + options_.threshold;
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  ++step_count_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ > options_.patience) {
    reduce_lr();
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
  }
  last_lr_ = current_lr();
}

void ReduceLROnPlateau::reduce_lr() {
  std::vector<double> rates = current_lr();
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double reduced =
        std::max(rates[i] * options_.factor, options_.min_lr[i]);
    if (rates[i] - reduced > options_.eps) {
      rates[i] = reduced;
    }
  }
  set_lr(rates);
}

std::vector<double> ReduceLROnPlateau::get_lr() const {
  return current_lr();
}

Json ReduceLROnPlateau::state_dict() const {
  Json state = LRScheduler::state_dict();
  state["best"] = best_as_json(best_);
  state["num_bad_epochs"] = num_bad_epochs_;
  state["cooldown_counter"] = cooldown_counter_;
  return state;
}

void ReduceLROnPlateau::load_state_dict(const Json& state) {
  const Json& best = state.at("best");
  const double loaded_best =
      best.is_null() ? worst(options_.mode) : best.as_double();
  const std::int64_t bad = state.at("num_bad_epochs").as_integer();
  const std::int64_t cooldown = state.at("cooldown_counter").as_integer();
  LRScheduler::load_state_dict(state);
  best_ = loaded_best;
  num_bad_epochs_ = bad;
  cooldown_counter_ = cooldown;
}

}  // namespace accelerate
