// SPDX-License-Identifier: Apache-2.0
// Notifies the ranks of a process group when a rank leaves the group.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/group.h"

namespace accelerate::mpi {

/// When a rank destroys its process group or exits, it sends the other ranks
/// the number of deliveries (`Transport::deliver`) in which it took part. A
/// rank that waits in a later delivery then fails immediately instead of timing
/// out.
///
/// Thread-safe. If a transport is never destroyed, `leave` is called when the
/// process exits.
class Departure {
 public:
  explicit Departure(const Group& group);
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

  /// Counts a delivery. Throws `StateError` after `leave`.
  void begin_delivery();
  /// Sets whether messages of this rank are in flight. If an exchange of
  /// messages fails, the value stays true, because MPI may still use the memory
  /// of the messages.
  void set_exchanging(bool exchanging) { exchanging_ = exchanging; }
  /// Notifies the other ranks. If an exchange has failed, does not notify them,
  /// but makes the process skip MPI_Finalize when it exits. Further calls do
  /// nothing.
  void leave();
  /// Returns whether `rank` left the group before the current delivery.
  bool has_left(int rank);

 private:
  struct Member {
    MPI_Request request = MPI_REQUEST_NULL;
    std::uint64_t deliveries = 0;
  };
  void send_notice();

  Runtime& runtime_;
  const MPI_Comm communicator_;
  const int rank_;
  // Never freed, like the communicator, because MPI holds pointers into this
  // vector.
  std::vector<Member>& members_;
  std::mutex mutex_;
  std::uint64_t deliveries_ = 0;
  std::atomic<bool> exchanging_ = false;
  bool left_ = false;
};

}  // namespace accelerate::mpi
