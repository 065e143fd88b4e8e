// SPDX-License-Identifier: Apache-2.0
// Scheduler steps whose optimizer step may have been skipped. The CPU has not
// read the skip flag yet.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "accelerate/optim.h"
#include "optim/skip_flag.h"

namespace accelerate {

/// NOTE [Pending steps]: with fp16, whether an optimizer step was skipped is
/// known only on the device. A skipped step must not advance the schedule. If
/// the CPU read the skip flag after each step, the program would wait for the
/// device each time. Instead, the CPU assumes that the step was not skipped.
/// The CPU sends the device a table with one learning rate for each possible
/// number of pending steps that were not skipped. The device selects the
/// learning rate with its own flags. The flags are also copied to host memory
/// asynchronously. When such a copy shows that a step was skipped, the CPU
/// undoes that step in the schedule.
class PendingSteps {
 public:
  /// Returns the learning rate of each parameter group for the case in which
  /// exactly `counted` of the pending steps were not skipped.
  using Rates = std::function<std::vector<double>(std::int64_t counted)>;

  /// The maximum number of pending steps. When this number is reached, the
  /// program waits for the device before it adds another step.
  static constexpr std::int64_t kMaxPending = 64;

  explicit PendingSteps(FusedOptimizer& optimizer) : optimizer_(optimizer) {}

  bool is_empty() const { return flags_.empty(); }
  bool is_full() const { return size() >= kMaxPending; }
  std::int64_t size() const { return static_cast<std::int64_t>(flags_.size()); }
  /// Returns whether the skip flag of the oldest pending step can be read
  /// without waiting; false if no step is pending.
  bool is_ready() const { return !is_empty() && flags_.front()->is_ready(); }

  /// Adds a pending step. The optimizer's parameter groups must already have
  /// the learning rates for the case in which no pending step was skipped.
  void add(std::shared_ptr<const SkipFlag> flag, const Rates& rates);
  /// Removes the oldest pending step and returns whether that step was skipped.
  /// Waits for its flag. There must be a pending step.
  bool pop_oldest();

 private:
  FusedOptimizer& optimizer_;
  std::deque<std::shared_ptr<const SkipFlag>> flags_;
  // The number of pending steps that were not skipped, on the device.
  at::Tensor counted_;
};

}  // namespace accelerate
