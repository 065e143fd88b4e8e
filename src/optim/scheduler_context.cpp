// SPDX-License-Identifier: Apache-2.0
#include "optim/scheduler_context.h"

#include "base/str_cat.h"

namespace accelerate {

std::int64_t SchedulerContext::steps_per_call() const {
  const bool once = !step_with_optimizer || split_batches ||
                    unit == SchedulerUnit::per_optimizer_step;
  return once ? 1 : num_processes;
}

std::string describe_unit(const SchedulerContext& context) {
  if (!context.step_with_optimizer) {
    return "each call to the scheduler's `step` advances the scheduler by one "
           "step, whether or not the optimizer takes a step "
           "(`step_scheduler_with_optimizer` is false)";
  }
  const std::int64_t steps = context.steps_per_call();
  if (steps == 1) {
    return "each optimizer step advances the scheduler by one step";
  }
  return str_cat(
      "each optimizer step advances the scheduler by ",
      steps,
      " steps, one per process; to advance it by only one step, set "
      "`scheduler_unit = SchedulerUnit::per_optimizer_step`");
}

}  // namespace accelerate
