// SPDX-License-Identifier: Apache-2.0
// Steps of a schedule of which it is not known yet whether they count.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "accelerate/optim.h"
#include "optim/skip_flag.h"

namespace accelerate {

/// NOTE [Pending steps]
/// With fp16 only the device knows whether a step was skipped, and a schedule
/// must not move then. Reading that would make the program wait at each step.
/// So the host goes on as if the step counted, and hands the device what the
/// learning rate is in each case: a table with a rate for each number of
/// pending steps that count, and the device chooses by its own flags. The flags
/// come to the host beside that; one that says "skipped" moves the host back.
class PendingSteps {
 public:
  /// The learning rates, one for each group, when so many of the pending steps
  /// count.
  using Rates = std::function<std::vector<double>(std::int64_t counted)>;

  /// More than these are waited for: the device is far behind.
  static constexpr std::int64_t kMost = 64;

  explicit PendingSteps(FusedOptimizer& optimizer) : optimizer_(optimizer) {}

  bool is_empty() const { return flags_.empty(); }
  bool is_full() const { return size() >= kMost; }
  std::int64_t size() const { return static_cast<std::int64_t>(flags_.size()); }
  /// Whether the oldest is known without waiting.
  bool has_come() const { return !is_empty() && flags_.front()->has_come(); }

  /// One step more, which the optimizer's groups now have the rates of as if
  /// all pending ones counted.
  void add(std::shared_ptr<const SkipFlag> flag, const Rates& rates);
  /// Whether the oldest was skipped; waits for it. It is not pending then.
  bool take();

 private:
  FusedOptimizer& optimizer_;
  std::deque<std::shared_ptr<const SkipFlag>> flags_;
  at::Tensor counted_;  // How many of them count, on the device.
};

}  // namespace accelerate
