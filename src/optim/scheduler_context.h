// SPDX-License-Identifier: Apache-2.0
// What a prepared scheduler asks its Accelerator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "accelerate/lr_scheduler.h"
#include "optim/skip_flag.h"

namespace accelerate {

/// Filled in by the Accelerator and handed to `LRScheduler::attach`.
struct SchedulerContext {
  /// Whether the present micro-step synchronises.
  std::function<bool()> sync_gradients = {};
  /// Whether any of the scheduler's optimizers skipped its last step.
  std::function<bool()> step_was_skipped = {};
  /// The same, to be known later; null where it is known at once. May be empty.
  std::function<std::shared_ptr<const SkipFlag>()> skipped_later = {};
  std::int64_t num_processes = 1;
  bool split_batches = false;
  /// `step_scheduler_with_optimizer`: false makes each call one plain step.
  bool step_with_optimizer = true;
  /// `GradientAccumulationPlugin::adjust_scheduler`.
  bool adjust_scheduler = true;
  SchedulerUnit unit = SchedulerUnit::per_process;

  /// Scheduler steps that one call of `step` stands for.
  std::int64_t steps_per_call() const;
};

/// The line that `prepare` prints: what a scheduler step means here, and how
/// to change it.
std::string describe_unit(const SchedulerContext& context);

}  // namespace accelerate
