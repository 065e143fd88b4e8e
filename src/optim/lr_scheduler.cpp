// SPDX-License-Identifier: Apache-2.0
#include "accelerate/lr_scheduler.h"

#include <cmath>
#include <iostream>
#include <utility>

#include <torch/optim/optimizer.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "base/str_cat.h"
#include "optim/pending_steps.h"
#include "optim/scheduler_context.h"

namespace accelerate {
namespace {

std::vector<double> rates_from(const Json& state, std::size_t groups) {
  std::vector<double> rates;
  for (const Json& rate : state.at("_last_lr").as_array()) {
    rates.push_back(rate.as_double());
  }
  if (rates.size() != groups) {
    throw FormatError(
        str_cat(
            "the saved scheduler does not match the optimizer (learning "
            "rates: ",
            rates.size(),
            ", parameter groups: ",
            groups,
            ")"),
        "load it into a scheduler whose optimizer has the same parameter "
        "groups");
  }
  return rates;
}

}  // namespace

LRScheduler::LRScheduler(torch::optim::Optimizer& optimizer)
    : optimizer_(&optimizer) {
  base_lrs_ = current_lr();
}

LRScheduler::~LRScheduler() = default;

std::vector<double> LRScheduler::current_lr() const {
  std::vector<double> rates;
  for (const auto& group : optimizer_->param_groups()) {
    rates.push_back(group.options().get_lr());
  }
  return rates;
}

void LRScheduler::set_lr(const std::vector<double>& rates) {
  auto& groups = optimizer_->param_groups();
  if (rates.size() != groups.size()) {
    throw StateError(
        str_cat(
            "parameter groups were added to the optimizer after the scheduler "
            "was created (learning rates: ",
            rates.size(),
            ", parameter groups: ",
            groups.size(),
            ")"),
        "create the scheduler after adding the last parameter group");
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].options().set_lr(rates[i]);
  }
  last_lr_ = rates;
}

void LRScheduler::initial_step() {
  advance();
}

void LRScheduler::advance() {
  ++step_count_;
  ++last_epoch_;
  try {
    set_lr(get_lr());
  } catch (...) {
    --step_count_;
    --last_epoch_;
    throw;
  }
}

std::optional<std::int64_t> LRScheduler::total_steps() const {
  return std::nullopt;
}

// The conditions are checked in the same order as in Hugging Face Accelerate.
void LRScheduler::step() {
  if (last_epoch_ < 0) {
    throw StateError(
        "`step` was called before the scheduler set its first learning rate",
        "call `initial_step` at the end of the scheduler's constructor");
  }
  if (context_ == nullptr || !context_->step_with_optimizer) {
    advance();
    return;
  }
  if (!context_->sync_gradients()) {
    step_count_ += context_->adjust_scheduler ? 1 : 0;
    return;
  }
  if (defer_step()) {
    return;
  }
  resolve_pending_steps();
  if (context_->step_was_skipped()) {
    return;
  }
  const std::int64_t steps = context_->steps_per_call();
  for (std::int64_t i = 0; i < steps; ++i) {
    if (step_count_ <= total_steps().value_or(step_count_)) {
      advance();
    }
  }
}

// See NOTE [Pending steps].
bool LRScheduler::defer_step() {
  auto* const fused = dynamic_cast<FusedOptimizer*>(optimizer_);
  if (!context_->deferred_skip_flag || fused == nullptr ||
      !follows_position()) {
    return false;
  }
  const std::int64_t steps = context_->steps_per_call();
  // Near the end of the schedule, whether another step is allowed depends on
  // how many pending steps were not skipped.
  if (const auto total = total_steps();
      total && step_count_ + steps - 1 > *total) {
    return false;
  }
  auto flag = context_->deferred_skip_flag();
  if (!flag) {
    return false;
  }
  if (!pending_) {
    pending_ = std::make_unique<PendingSteps>(*fused);
  }
  while (pending_->is_ready() || pending_->is_full()) {
    resolve_oldest_step();
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    advance();
  }
  const std::int64_t pending = 1 + pending_->size();
  pending_->add(std::move(flag), [&](std::int64_t counted) {
    return rates_at(last_epoch_ - (pending - counted) * steps);
  });
  return true;
}

std::vector<double> LRScheduler::rates_at(std::int64_t position) const {
  const std::int64_t current = std::exchange(last_epoch_, position);
  try {
    std::vector<double> rates = get_lr();
    last_epoch_ = current;
    return rates;
  } catch (...) {
    last_epoch_ = current;
    throw;
  }
}

void LRScheduler::resolve_oldest_step() const {
  if (!pending_->pop_oldest()) {
    return;
  }
  const std::int64_t steps = context_->steps_per_call();
  last_epoch_ -= steps;
  step_count_ -= steps;
  last_lr_ = get_lr();
  auto& groups = optimizer_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].options().set_lr(last_lr_[i]);
    // The device has already selected this rate.
    dynamic_cast<FusedOptimizer&>(*optimizer_).set_device_lr(i, {});
  }
}

void LRScheduler::resolve_pending_steps() const {
  while (pending_ && !pending_->is_empty()) {
    resolve_oldest_step();
  }
}

const std::vector<double>& LRScheduler::get_last_lr() const {
  resolve_pending_steps();
  return last_lr_;
}
std::int64_t LRScheduler::last_epoch() const {
  resolve_pending_steps();
  return last_epoch_;
}
std::int64_t LRScheduler::step_count() const {
  resolve_pending_steps();
  return step_count_;
}

void LRScheduler::print_lr() const {
  resolve_pending_steps();
  for (std::size_t i = 0; i < last_lr_.size(); ++i) {
    std::cout << str_cat(
        "learning rate of parameter group ", i, ": ", last_lr_[i], "\n");
  }
}

Json LRScheduler::state_dict() const {
  resolve_pending_steps();
  return Json::object(
      {{"base_lrs", base_lrs_},
       {"last_epoch", last_epoch_},
       {"_step_count", step_count_},
       {"_last_lr", last_lr_}});
}

void LRScheduler::load_state_dict(const Json& state) {
  const std::size_t groups = optimizer_->param_groups().size();
  const std::vector<double> rates = rates_from(state, groups);
  std::vector<double> base;
  for (const Json& rate : state.at("base_lrs").as_array()) {
    base.push_back(rate.as_double());
  }
  const std::int64_t last_epoch = state.at("last_epoch").as_integer();
  const std::int64_t step_count = state.at("_step_count").as_integer();
  if (base.size() != groups) {
    throw FormatError(str_cat(
        "the saved scheduler does not match the optimizer (initial learning "
        "rates: ",
        base.size(),
        ", parameter groups: ",
        groups,
        ")"));
  }
  resolve_pending_steps();
  base_lrs_ = base;
  last_epoch_ = last_epoch;
  step_count_ = step_count;
  set_lr(rates);
}

void LRScheduler::attach(std::shared_ptr<const SchedulerContext> context) {
  resolve_pending_steps();
  context_ = std::move(context);
}

LambdaLR::LambdaLR(torch::optim::Optimizer& optimizer, const Lambda& lambda)
    : LambdaLR(
          optimizer,
          std::vector<Lambda>(optimizer.param_groups().size(), lambda)) {
}

LambdaLR::LambdaLR(
    torch::optim::Optimizer& optimizer, std::vector<Lambda> lambdas)
    : LRScheduler(optimizer), lambdas_(std::move(lambdas)) {
  if (lambdas_.size() != base_lrs_.size()) {
    throw ArgumentError(
        str_cat(
            "LambdaLR needs one function for each parameter group (functions: ",
            lambdas_.size(),
            ", parameter groups: ",
            base_lrs_.size(),
            ")"),
        "pass one function for each parameter group, or a single function "
        "instead of a vector");
  }
  initial_step();
}

std::vector<double> LambdaLR::get_lr() const {
  std::vector<double> rates;
  for (std::size_t i = 0; i < base_lrs_.size(); ++i) {
    rates.push_back(base_lrs_[i] * lambdas_[i](last_epoch_));
  }
  return rates;
}

StepLR::StepLR(torch::optim::Optimizer& optimizer, const StepLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  if (options.step_size < 1) {
    throw ArgumentError(
        str_cat("`step_size` is ", options.step_size), "pass 1 or more");
  }
  initial_step();
}

std::vector<double> StepLR::get_lr() const {
  const auto reductions = last_epoch_ / options_.step_size;
  const double factor =
      std::pow(options_.gamma, static_cast<double>(reductions));
  std::vector<double> rates = base_lrs_;
  for (double& rate : rates) {
    rate *= factor;
  }
  return rates;
}

}  // namespace accelerate
