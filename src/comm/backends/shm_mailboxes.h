// SPDX-License-Identifier: Apache-2.0
// Point-to-point messages through shared memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "comm/shared_memory.h"
#include "comm/transport.h"
#include "comm/wait_limits.h"

namespace accelerate {

/// Sends and receives messages between pairs of ranks on one machine.
///
/// Each ordered pair of ranks has a small ring buffer. A thread, started with
/// the first message, moves the bytes of all pending messages. The thread
/// sleeps on the rank's doorbell, a futex that another rank rings after it has
/// written to or read from a ring buffer. Messages with the same sender,
/// receiver and tag keep their order. A message without a matching receive is
/// kept in private memory, so it never blocks the messages behind it.
///
/// Thread safety: all members may be called from any thread.
class ShmMailboxes {
 public:
  /// Returns how many bytes of shared memory `size` ranks need, rounded up to
  /// whole pages.
  static std::size_t bytes(int size);

  ShmMailboxes(
      std::shared_ptr<SharedMemory> memory,
      std::byte* base,
      int rank,
      int size,
      WaitLimits limits);
  ~ShmMailboxes();

  void send(int to, int tag, std::span<const std::byte> bytes, Completion done);
  void receive(int from, int tag, std::span<std::byte> bytes, Completion done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
