// SPDX-License-Identifier: Apache-2.0
// Decides when a periodic save is due.
#pragma once

#include <chrono>
#include <cstdint>

#include "accelerate/checkpoint.h"
#include "accelerate/group.h"

namespace accelerate {

/// Counts the steps and the time since the last save.
class SaveClock {
 public:
  /// Throws `ArgumentError` for options that never lead to a save.
  explicit SaveClock(const SaveEveryOptions& options);

  /// Counts one step and returns whether a save is due. The result is the same
  /// on every rank. Collective if `minutes` is set.
  bool is_due(const Group& group);
  /// Restarts the clock. Must be called after each save.
  void restart() { last_ = std::chrono::steady_clock::now(); }

 private:
  SaveEveryOptions options_;
  std::int64_t steps_ = 0;
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

}  // namespace accelerate
