// SPDX-License-Identifier: Apache-2.0
// The rendezvous of ranks that share only a store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/fwd.h"
#include "comm/run_collectively.h"
#include "comm/shared_memory.h"
#include "comm/wait_limits.h"

namespace accelerate {

/// One rank of a process group, and the store that the ranks share.
struct RankContext {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  /// The process index of each rank; empty if the group contains all processes.
  std::vector<int> members = {};
  /// The number of processes in the run. Used only if `members` is not empty.
  int num_processes = 0;
};

/// Returns the ranks from 0 to `size` - 1, except `rank`.
std::vector<int> other_ranks(int rank, int size);

/// Stores `value` under `topic` and returns the values from all ranks.
///
/// Collective; use each topic only once. After the timeout, throws a
/// `DistributedError` that names the missing ranks.
std::vector<std::string> gather_through_store(
    const RankContext& context,
    const std::string& topic,
    const std::string& value,
    const WaitLimits& limits);

/// Returns a function that calls `gather_through_store` with `topic`. `context`
/// and `limits` must outlive the result.
GatherTexts through_store(
    const RankContext& context,
    const std::string& topic,
    const WaitLimits& limits);

/// Memory that all ranks share, or the reasons why the ranks share no memory.
struct CommonMemory {
  /// Null unless every rank opened the same memory. If not null, this rank
  /// holds its presence lock.
  std::shared_ptr<SharedMemory> memory;
  /// A line for each rank that failed; empty if `memory` is not null.
  std::string problems = {};
};

/// Finds out whether all ranks are on one machine: rank 0 creates shared memory
/// and the other ranks try to open this memory.
///
/// Collective. If rank 0 cannot create the memory or another rank cannot open
/// it, `memory` in the result is null on all ranks.
CommonMemory share_memory(
    const RankContext& context, std::size_t bytes, const WaitLimits& limits);

}  // namespace accelerate
