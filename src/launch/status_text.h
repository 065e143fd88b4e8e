// SPDX-License-Identifier: Apache-2.0
// What Ctrl-\ prints: who is alive, at which step, and who waits for whom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accelerate/json.h"
#include "launch/store_core.h"

namespace accelerate {

/// A worker of this machine.
struct LocalWorker {
  std::int64_t rank = 0;
  pid_t pid = 0;
  std::string end;  ///< How it ended; empty: it runs.
  std::optional<std::int64_t> step;
};

/// `known` is what the store and the other machines say about any rank.
std::string status_text(
    double seconds,
    std::int64_t num_processes,
    const std::vector<LocalWorker>& workers,
    const std::vector<RankStatus>& known);

/// For machines to tell each other. `from_json` throws `FormatError`.
Json status_to_json(const std::vector<RankStatus>& ranks);
std::vector<RankStatus> status_from_json(const Json& json);

}  // namespace accelerate
