// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include <torch/optim/optimizer.h>

#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "base/str_cat.h"
#include "optim/momentum.h"
#include "optim/per_param_group.h"

namespace accelerate {
namespace {

double anneal(
    AnnealStrategy strategy, double from, double to, double fraction) {
  switch (strategy) {
    case AnnealStrategy::cos:
      return to + (from - to) / 2 * (std::cos(std::numbers::pi * fraction) + 1);
    case AnnealStrategy::linear:
      return from + (to - from) * fraction;
  }
  return to;
}

void check(const OneCycleLROptions& options) {
  if (options.total_steps < 1) {
    throw ArgumentError(
        str_cat("`total_steps` is ", options.total_steps), "pass 1 or more");
  }
  if (!(options.pct_start >= 0 && options.pct_start <= 1)) {
    throw ArgumentError(
        str_cat("`pct_start` is ", options.pct_start),
        "pass a number from 0 to 1");
  }
}

void check_momentum(torch::optim::Optimizer& optimizer) {
  if (!has_momentum(optimizer)) {
    throw ArgumentError(
        "`cycle_momentum` needs an optimizer with `momentum` or `betas`, but "
        "this optimizer has neither",
        "set `cycle_momentum = false`");
  }
}

}  // namespace

OneCycleLR::OneCycleLR(
    torch::optim::Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check(options);
  options_.max_lr = per_param_group("max_lr", options.max_lr, base_lrs_.size());
  if (options.cycle_momentum) {
    check_momentum(optimizer);
  }
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) {
    base_lrs_[i] = options_.max_lr[i] / options.div_factor;
  }
  initial_step();
}

std::optional<std::int64_t> OneCycleLR::total_steps() const {
  return options_.total_steps;
}

// The learning rate rises to its maximum, falls back to its initial value (only
// with `three_phase`), and then decays. A phase may end between two steps.
double OneCycleLR::at_position(double low, double high, double last) const {
  const auto total = static_cast<double>(options_.total_steps);
  const double peak = options_.pct_start * total - 1;
  const double back = 2 * options_.pct_start * total - 2;
  const double end = total - 1;
  const auto position = static_cast<double>(last_epoch_);
  const auto between = [&](double from, double to, double start, double stop) {
    // A phase of length 0 is skipped.
    const double fraction =
        stop > start ? std::min(1.0, (position - start) / (stop - start)) : 1.0;
    return anneal(options_.anneal_strategy, from, to, fraction);
  };
  if (position <= peak) {
    return between(low, high, 0, peak);
  }
  if (!options_.three_phase) {
    return between(high, last, peak, end);
  }
  return position <= back ? between(high, low, peak, back)
                          : between(low, last, back, end);
}

std::vector<double> OneCycleLR::get_lr() const {
  if (last_epoch_ > options_.total_steps) {
    throw StateError(
        str_cat(
            "OneCycleLR took ",
            last_epoch_,
            " steps, but its `total_steps` is ",
            options_.total_steps),
        "set `total_steps` to the number of training steps");
  }
  std::vector<double> rates;
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) {
    rates.push_back(at_position(
        base_lrs_[i],
        options_.max_lr[i],
        base_lrs_[i] / options_.final_div_factor));
  }
  return rates;
}

double OneCycleLR::get_momentum() const {
  return at_position(
      options_.max_momentum, options_.base_momentum, options_.max_momentum);
}

void OneCycleLR::advance() {
  LRScheduler::advance();
  if (options_.cycle_momentum) {
    set_momentum(optimizer(), get_momentum());
  }
}

}  // namespace accelerate
