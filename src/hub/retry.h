// SPDX-License-Identifier: Apache-2.0
// Decides how often a failed operation is tried again, and how long to wait
// before each attempt.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "hub/hub_options.h"

namespace transformers::hub {

/// Counts the attempts at one operation.
class Retry {
 public:
  explicit Retry(const HubOptions& options) : options_(options) {}

  /// Waits until the next attempt. Returns false, without waiting, if no
  /// attempt is left. `retry_after` is the server's `Retry-After` header: if
  /// the header requests a longer wait, waits that long, but at most one
  /// minute.
  bool wait_for_next_attempt(
      const std::optional<std::string>& retry_after = std::nullopt);
  /// Resets the count of attempts without progress.
  void progressed() { without_progress_ = 0; }
  int attempts() const { return attempts_ + 1; }

 private:
  const HubOptions& options_;
  int attempts_ = 0;
  int without_progress_ = 0;
};

/// Returns whether another attempt may succeed after a response with this
/// status.
inline bool is_transient(int status) {
  return status == 408 || status == 429 || (status >= 500 && status <= 504);
}

}  // namespace transformers::hub
