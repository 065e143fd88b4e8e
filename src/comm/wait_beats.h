// SPDX-License-Identifier: Apache-2.0
// Which ranks on this machine are waiting for other ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/shared_memory.h"

namespace accelerate {

/// The times at which each rank last reported that it waits, in shared memory.
///
/// If a rank stops in the middle of a collective, some ranks may have finished
/// this collective already and wait in the next one. Each of the waiting ranks
/// then misses the stopped rank and also ranks that only wait themselves.
class WaitBeats {
 public:
  /// Returns how many bytes of shared memory `size` ranks need, rounded up to
  /// whole pages.
  static std::size_t bytes(int size);

  /// `base` must point to zeros at first.
  WaitBeats(std::shared_ptr<SharedMemory> memory, std::byte* base, int rank);

  /// Reports that this rank waits. Call it about ten times a second.
  void beat();
  /// Returns those of `ranks` that have not reported for a second. If all of
  /// them have reported, returns `ranks`.
  std::vector<int> silent(const std::vector<int>& ranks) const;

 private:
  struct Slot;

  std::shared_ptr<SharedMemory> memory_;
  Slot* slots_;
  int rank_;
};

}  // namespace accelerate
