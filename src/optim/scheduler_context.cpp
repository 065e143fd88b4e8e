// SPDX-License-Identifier: Apache-2.0
#include "optim/scheduler_context.h"

#include "base/str_cat.h"

namespace accelerate {

std::int64_t SchedulerContext::steps_per_call() const {
  const bool once = !step_with_optimizer || split_batches ||
                    unit == SchedulerUnit::per_optimizer_step;
  return once ? 1 : data_parallel_size;
}

std::string describe_unit(const SchedulerContext& context) {
  return str_cat(
      "note: prepare(scheduler): each optimizer step advances the scheduler "
      "by ",
      context.steps_per_call(),
      " steps, one per process (with XLA, one per device); to advance it by "
      "only one step, set "
      "`scheduler_unit = SchedulerUnit::per_optimizer_step`");
}

}  // namespace accelerate
