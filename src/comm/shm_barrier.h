// SPDX-License-Identifier: Apache-2.0
// A barrier in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/shared_memory.h"
#include "comm/wait_limits.h"

namespace accelerate {

/// A reusable barrier in shared memory.
///
/// In each round a rank writes its data, calls `arrive`, then `wait`, then
/// reads the data of the other ranks.
///
/// NOTE [Two buffers]: a rank that writes its data of round r into buffer r % 2
/// needs no other synchronization. In round r + 2, it can safely overwrite the
/// data of round r: it has waited for all ranks in round r + 1, and a rank
/// arrives in round r + 1 only after it has read the data of round r.
///
/// `wait` spins for a few microseconds, then sleeps on a futex; ten times a
/// second it checks whether the missing ranks are alive.
///
/// Thread safety: use each object from only one thread at a time; each rank has
/// its own object.
class ShmBarrier {
 public:
  /// Returns how many bytes of shared memory a group of `size` ranks needs,
  /// rounded up to whole pages.
  static std::size_t bytes(int size);

  /// `base` is an address in `memory`, at the same offset for each rank. The
  /// bytes at `base` must be zero before the first rank calls `arrive`.
  ShmBarrier(
      std::shared_ptr<SharedMemory> memory,
      std::byte* base,
      int rank,
      int size);

  /// Arrives at the barrier: everything that this rank has written becomes
  /// visible to the waiting ranks.
  void arrive();

  /// Returns when every rank has called `arrive` at least as often as this
  /// rank.
  ///
  /// Throws `DistributedError` when a rank has exited or times out.
  void wait(const Call& call, const WaitLimits& limits);

  /// Returns whether `wait` would return immediately.
  bool all_arrived() const;

  /// Returns which of the two buffers the next round uses.
  int parity() const { return static_cast<int>(round_ % 2); }

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  struct Slot;

  bool has_arrived(int rank) const;
  bool spin(int rank) const;
  std::vector<int> missing() const;
  std::vector<int> exited(const std::vector<int>& ranks) const;
  void sleep_on(int rank, std::chrono::milliseconds timeout);

  std::shared_ptr<SharedMemory> memory_;
  Slot* slots_;
  const int rank_;
  const int size_;
  const int spins_;
  std::uint32_t round_ = 0;
};

}  // namespace accelerate
