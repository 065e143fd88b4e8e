// SPDX-License-Identifier: Apache-2.0
// The information that a prepared scheduler needs from its Accelerator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "accelerate/lr_scheduler.h"
#include "optim/skip_flag.h"

namespace accelerate {

/// The Accelerator fills in this struct and passes it to `LRScheduler::attach`.
struct SchedulerContext {
  /// Whether the current micro-step synchronizes gradients.
  std::function<bool()> sync_gradients = {};
  /// Whether the last optimizer step was skipped because gradients overflowed.
  std::function<bool()> step_was_skipped = {};
  /// Returns a flag for whether the step was skipped; the caller may read the
  /// flag later. Returns null if there is no such flag; the scheduler must then
  /// call `step_was_skipped`. This member may be empty.
  std::function<std::shared_ptr<const SkipFlag>()> deferred_skip_flag = {};
  /// The number of devices that get different samples in a step.
  std::int64_t data_parallel_size = 1;
  bool split_batches = false;
  /// The option `step_scheduler_with_optimizer`. If false, each call to `step`
  /// advances the scheduler by one step, whether or not the optimizer takes a
  /// step.
  bool step_with_optimizer = true;
  /// The value of `GradientAccumulationPlugin::adjust_scheduler`.
  bool adjust_scheduler = true;
  SchedulerUnit unit = SchedulerUnit::per_process;

  /// Returns the number of scheduler steps that one call to `step` takes.
  std::int64_t steps_per_call() const;
};

/// Returns the line that `prepare` prints if several scheduler steps are taken
/// for each optimizer step. The line also explains how to take one scheduler
/// step instead.
std::string describe_unit(const SchedulerContext& context);

}  // namespace accelerate
