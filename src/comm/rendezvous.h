// SPDX-License-Identifier: Apache-2.0
// How ranks that only share a store find each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/fwd.h"
#include "comm/patience.h"
#include "comm/shared_memory.h"

namespace accelerate {

/// One rank's place at a store.
struct Seat {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  /// Process index of each rank, and how many processes the run has; empty in
  /// a group of all of them.
  std::vector<int> members = {};
  int num_processes = 0;
};

/// The ranks from 0 to `size` - 1 without `rank`.
std::vector<int> all_but(int rank, int size);

/// Puts `value` under `topic` and returns the values of all ranks.
///
/// Collective, once per topic. Throws `DistributedError` that names the ranks
/// which did not come in time.
std::vector<std::string> meet(
    const Seat& seat,
    const std::string& topic,
    const std::string& value,
    const Patience& patience);

/// Memory that all ranks share, or why there is none.
struct CommonMemory {
  /// Null unless every rank opened the same memory; presence is held.
  std::shared_ptr<SharedMemory> memory;
  /// What each rank could not do; empty where it could.
  std::vector<std::string> problems;
};

/// Finds out by trying whether all ranks are on one host: rank 0 makes memory
/// and the others open it.
///
/// Collective. A host without memory for it counts as "no".
CommonMemory share_memory(
    const Seat& seat, std::size_t bytes, const Patience& patience);

}  // namespace accelerate
