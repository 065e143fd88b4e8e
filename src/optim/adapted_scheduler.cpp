// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include "accelerate/lr_scheduler.h"

namespace accelerate {
namespace {

// LibTorch exposes the step count only to subclasses.
class StepCountAccess : public torch::optim::LRScheduler {
 public:
  static unsigned& count_of(torch::optim::LRScheduler& scheduler) {
    return scheduler.*(&StepCountAccess::step_count_);
  }
};

}  // namespace

// LibTorch's schedulers do not change the first learning rate, so the initial
// step is only counted.
AdaptedScheduler::AdaptedScheduler(
    torch::optim::LRScheduler& scheduler, torch::optim::Optimizer& optimizer)
    : LRScheduler(optimizer), scheduler_(&scheduler) {
  last_epoch_ = 0;
  step_count_ = 1;
  last_lr_ = current_lr();
}

std::vector<double> AdaptedScheduler::get_lr() const {
  return current_lr();
}

void AdaptedScheduler::advance() {
  scheduler_->step();
  ++step_count_;
  ++last_epoch_;
  last_lr_ = current_lr();
}

Json AdaptedScheduler::state_dict() const {
  Json state = LRScheduler::state_dict();
  state["inner_step_count"] = StepCountAccess::count_of(*scheduler_);
  return state;
}

void AdaptedScheduler::load_state_dict(const Json& state) {
  const std::int64_t count = state.at("inner_step_count").as_integer();
  LRScheduler::load_state_dict(state);
  StepCountAccess::count_of(*scheduler_) = static_cast<unsigned>(count);
}

AdaptedScheduler adapt(
    torch::optim::LRScheduler& scheduler, torch::optim::Optimizer& optimizer) {
  return {scheduler, optimizer};
}

}  // namespace accelerate
