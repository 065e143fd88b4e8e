// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/optimization.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::Json;
using accelerate::str_cat;

double worst_metric(const GreedyLROptions::Mode mode) {
  const double infinity = std::numeric_limits<double>::infinity();
  return mode == GreedyLROptions::Mode::min ? infinity : -infinity;
}

std::vector<double> for_each_group(
    const std::string_view option,
    const std::vector<double>& values,
    const std::size_t groups) {
  if (values.size() != 1 && values.size() != groups) {
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
  return values.size() == groups ? values
                                 : std::vector<double>(groups, values.front());
}

void check_greedy(const GreedyLROptions& options) {
  if (!(options.factor < 1)) {
    throw ArgumentError(
        str_cat("`factor` is ", options.factor), "pass a number below 1");
  }
  if (options.smooth && options.window_size < 1) {
    throw ArgumentError(
        str_cat("`window_size` is ", options.window_size), "pass 1 or more");
  }
}

}  // namespace

GreedyLR::GreedyLR(
    torch::optim::Optimizer& optimizer, const GreedyLROptions& options)
    : LRScheduler(optimizer),
      options_(options),
      best_(worst_metric(options.mode)),
      reset_start_(options.reset_start) {
  check_greedy(options);
  options_.min_lr = for_each_group("min_lr", options.min_lr, base_lrs_.size());
  options_.max_lr = for_each_group("max_lr", options.max_lr, base_lrs_.size());
  last_epoch_ = 0;
  step_count_ = 1;
  last_lr_ = current_lr();
}

void GreedyLR::step() {
  throw accelerate::StateError(
      "`GreedyLR::step` was called without a metric",
      "pass the metric: `scheduler.step(loss)`");
}

void GreedyLR::step(double metric) {
  metric = options_.smooth ? smoothed(metric) : metric;
  ++last_epoch_;
  ++step_count_;
  std::int64_t& wait =
      cooldown_counter_ > 0 ? cooldown_counter_ : warmup_counter_;
  if (wait > 0) {
    --wait;
    num_bad_epochs_ = 0;
    num_good_epochs_ = 0;
  } else {
    count(metric);
  }
  last_lr_ = current_lr();
}

double GreedyLR::smoothed(const double metric) {
  window_.push_back(metric);
  window_sum_ += metric;
  if (static_cast<std::int64_t>(window_.size()) > options_.window_size) {
    window_sum_ -= window_.front();
    window_.erase(window_.begin());
  }
  return window_sum_ / static_cast<double>(window_.size());
}

bool GreedyLR::is_better(const double metric) const {
  const bool smaller = options_.mode == GreedyLROptions::Mode::min;
  if (options_.threshold_mode == GreedyLROptions::ThresholdMode::rel) {
    return smaller ? metric < best_ * (1 - options_.threshold)
                   : metric > best_ * (1 + options_.threshold);
  }
  return smaller ? metric < best_ - options_.threshold
                 : metric > best_ + options_.threshold;
}

void GreedyLR::count(const double metric) {
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
    ++num_good_epochs_;
  } else {
    ++num_bad_epochs_;
    num_good_epochs_ = 0;
  }
  if (num_good_epochs_ > options_.patience) {
    increase_lr();
    warmup_counter_ = options_.warmup;
    num_good_epochs_ = 0;
  } else if (num_bad_epochs_ > options_.patience) {
    reduce_lr();
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
  }
}

void GreedyLR::increase_lr() {
  std::vector<double> rates = current_lr();
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double raised =
        std::min(rates[i] / options_.factor, options_.max_lr[i]);
    if (raised - rates[i] > options_.eps) {
      rates[i] = raised;
    }
  }
  set_lr(rates);
  reset_start_ = options_.reset_start;
}

void GreedyLR::reduce_lr() {
  std::vector<double> rates = current_lr();
  bool all_lowest = true;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double reduced =
        std::max(rates[i] * options_.factor, options_.min_lr[i]);
    if (rates[i] - reduced > options_.eps) {
      rates[i] = reduced;
    }
    all_lowest = all_lowest && rates[i] <= options_.min_lr[i];
  }
  set_lr(rates);
  if (all_lowest && --reset_start_ <= 0) {
    reset();
  }
}

void GreedyLR::reset() {
  set_lr(base_lrs_);
  best_ = worst_metric(options_.mode);
  num_bad_epochs_ = 0;
  num_good_epochs_ = 0;
  cooldown_counter_ = 0;
  warmup_counter_ = 0;
  reset_start_ = options_.reset_start;
  window_.clear();
  window_sum_ = 0;
}

std::vector<double> GreedyLR::get_lr() const {
  return current_lr();
}

Json GreedyLR::state_dict() const {
  Json state = LRScheduler::state_dict();
  // JSON has no infinities.
  state["best"] = std::isfinite(best_) ? Json(best_) : Json();
  state["num_bad_epochs"] = num_bad_epochs_;
  state["num_good_epochs"] = num_good_epochs_;
  state["cooldown_counter"] = cooldown_counter_;
  state["warmup_counter"] = warmup_counter_;
  state["reset_start"] = reset_start_;
  state["window"] = Json(window_);
  state["window_sum"] = window_sum_;
  return state;
}

void GreedyLR::load_state_dict(const Json& state) {
  const Json& best = state.at("best");
  const double loaded_best =
      best.is_null() ? worst_metric(options_.mode) : best.as_double();
  std::vector<double> window;
  for (const Json& metric : state.at("window").as_array()) {
    window.push_back(metric.as_double());
  }
  const double window_sum = state.at("window_sum").as_double();
  const std::int64_t bad = state.at("num_bad_epochs").as_integer();
  const std::int64_t good = state.at("num_good_epochs").as_integer();
  const std::int64_t cooldown = state.at("cooldown_counter").as_integer();
  const std::int64_t warmup = state.at("warmup_counter").as_integer();
  const std::int64_t reset_start = state.at("reset_start").as_integer();
  LRScheduler::load_state_dict(state);
  best_ = loaded_best;
  window_ = std::move(window);
  window_sum_ = window_sum;
  num_bad_epochs_ = bad;
  num_good_epochs_ = good;
  cooldown_counter_ = cooldown;
  warmup_counter_ = warmup;
  reset_start_ = reset_start;
}

}  // namespace transformers
