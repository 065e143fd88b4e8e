// SPDX-License-Identifier: Apache-2.0
// The status that Ctrl-\ prints: which ranks are running, their steps, and what
// each rank is waiting for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accelerate/json.h"
#include "launch/store_core.h"

namespace accelerate {

/// A worker on this machine.
struct LocalWorker {
  std::int64_t rank = 0;
  pid_t pid = 0;
  std::string exit;  ///< How the worker exited; empty while it runs.
  /// Whether the worker is stopped by a signal such as SIGSTOP, or by a
  /// debugger.
  bool is_stopped = false;
  std::optional<std::int64_t> step;
};

/// Returns the status as text. `seconds` is the time since the workers started.
/// `statuses` contains the status of all ranks, from the store and from the
/// other machines.
std::string status_text(
    double seconds,
    std::int64_t num_processes,
    const std::vector<LocalWorker>& workers,
    const std::vector<RankStatus>& statuses);

/// Serializes the status to send it to another machine. `status_from_json`
/// throws `FormatError` on malformed input.
Json status_to_json(const std::vector<RankStatus>& ranks);
std::vector<RankStatus> status_from_json(const Json& json);

}  // namespace accelerate
