// SPDX-License-Identifier: Apache-2.0
// Records which ranks on this machine are waiting for other ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/shared_memory.h"

namespace accelerate {

/// The times, in shared memory, at which each rank last reported that it was
/// waiting.
///
/// If a rank stops in the middle of a collective, other ranks may have finished
/// this collective and wait in the next one. To a waiting rank, the stopped
/// rank seems to be missing, but so do ranks that are waiting in a different
/// collective. The times distinguish the two cases.
class WaitBeats {
 public:
  /// Returns how many bytes of shared memory a group of `size` ranks needs,
  /// rounded up to whole pages.
  static std::size_t bytes(int size);

  /// `base` must initially point to zeros.
  WaitBeats(std::shared_ptr<SharedMemory> memory, std::byte* base, int rank);

  /// Reports that this rank is waiting. Must be called about ten times per
  /// second while the rank waits.
  void beat();
  /// Returns the ranks in `ranks` that have not reported within the last
  /// second. If there are none, returns all of `ranks`, so that a message
  /// always names at least one rank.
  std::vector<int> silent(const std::vector<int>& ranks) const;

 private:
  struct Slot;

  std::shared_ptr<SharedMemory> memory_;
  Slot* slots_;
  int rank_;
};

}  // namespace accelerate
