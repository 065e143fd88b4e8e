// SPDX-License-Identifier: Apache-2.0
// Messages from one rank to another through shared memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "comm/patience.h"
#include "comm/shared_memory.h"
#include "comm/transport.h"

namespace accelerate {

/// Sends and receives between pairs of ranks on one host.
///
/// Each ordered pair of ranks has a small ring of bytes. A thread of its own,
/// started with the first message, moves bytes of all pending messages and
/// sleeps on the rank's doorbell, a futex that the other side rings after it
/// has put bytes in or taken some out. Messages of one pair and tag keep
/// their order; a message nobody asked for yet is kept in private memory, so
/// it never blocks one behind it.
///
/// Thread safety: all members may be called from any thread.
class ShmMailboxes {
 public:
  /// Bytes of shared memory that `size` ranks need, a multiple of a page.
  static std::size_t bytes(int size);

  ShmMailboxes(
      std::shared_ptr<SharedMemory> memory,
      std::byte* where,
      int rank,
      int size,
      Patience patience);
  ~ShmMailboxes();

  void send(int to, int tag, std::span<const std::byte> bytes, Completion done);
  void receive(int from, int tag, std::span<std::byte> bytes, Completion done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
