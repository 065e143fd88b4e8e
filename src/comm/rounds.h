// SPDX-License-Identifier: Apache-2.0
// Ranks that walk through shared memory in step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/patience.h"
#include "comm/shared_memory.h"

namespace accelerate {

/// A barrier in shared memory that ranks pass again and again.
///
/// In each round a rank writes what the others shall see, calls `arrive`,
/// then `wait`, then reads what the others wrote.
///
/// NOTE [Two buffers]: whoever writes round r into buffer r % 2 needs no other
/// synchronisation. Writing round r + 2 over round r is safe because its
/// writer has waited for round r + 1, and a rank arrives in r + 1 only after
/// it has read everything it wants from round r.
///
/// Waiting spins for a few microseconds, then sleeps on a futex; ten times a
/// second it looks whether the ranks it waits for still live.
///
/// Thread safety: one thread at a time per object; one object per rank.
class Rounds {
 public:
  /// Bytes of shared memory that `size` ranks need, a multiple of a page.
  static std::size_t bytes(int size);

  /// `where` lies in `memory`, the same place for each rank, and is zero
  /// before the first rank arrives.
  Rounds(
      std::shared_ptr<SharedMemory> memory,
      std::byte* where,
      int rank,
      int size);

  /// Makes everything this rank has written visible to those that wait.
  void arrive();

  /// Returns when each rank has arrived as often as this one.
  ///
  /// Throws `DistributedError` when a rank is gone or the time is over.
  void wait(const Call& call, const Patience& patience);

  /// Whether `wait` would return at once.
  bool all_arrived() const;

  /// Which of two buffers belongs to the round that comes next.
  int parity() const { return static_cast<int>(mine_ % 2); }

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  struct Slot;

  bool has_arrived(int rank) const;
  bool spin(int rank) const;
  std::vector<int> missing() const;
  std::vector<int> gone(const std::vector<int>& ranks) const;
  void sleep_on(int rank, std::chrono::milliseconds at_most);

  std::shared_ptr<SharedMemory> memory_;
  Slot* slots_;
  const int rank_;
  const int size_;
  const int spins_;
  std::uint32_t mine_ = 0;
};

}  // namespace accelerate
