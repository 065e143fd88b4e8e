// SPDX-License-Identifier: Apache-2.0
// How often to try, and how long to wait in between.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "transformers/hub/settings.h"

namespace transformers::hub {

/// Counts attempts at one thing.
class Retry {
 public:
  explicit Retry(const Settings& settings) : settings_(settings) {}

  /// Waits before the next attempt; false when there was the last. A server
  /// may say how many seconds it wants (`Retry-After`), up to a minute.
  bool again(const std::optional<std::string>& retry_after = std::nullopt);
  /// Something was gained: the attempts without progress count from 0.
  void progressed() { without_progress_ = 0; }
  int attempts() const { return attempts_ + 1; }

 private:
  const Settings& settings_;
  int attempts_ = 0;
  int without_progress_ = 0;
};

/// Whether another attempt may have another answer.
inline bool is_passing(int status) {
  return status == 408 || status == 429 || (status >= 500 && status <= 504);
}

}  // namespace transformers::hub
