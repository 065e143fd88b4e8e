// SPDX-License-Identifier: Apache-2.0
// Pending `send` and `recv` operations.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include <c10/util/intrusive_ptr.h>

#include "comm/backends/mpi/group.h"
#include "comm/backends/mpi/requests.h"
#include "comm/backends/mpi/work.h"

namespace accelerate::mpi {

/// One message between two ranks.
struct Message {
  c10::intrusive_ptr<MpiWork> work;
  Requests requests;
  /// The rank at the other end; empty for a receive from any rank.
  std::optional<int> other_rank;
  Clock::time_point deadline;
  /// Called when the message has been sent or received.
  std::function<void()> finish;
  /// When to check next whether the other rank is still in the group.
  Clock::time_point next_check{};
  bool other_rank_left = false;
};

/// All unfinished messages of a process group.
///
/// A send is handed to MPI when it is posted; a receive is handed to MPI when
/// its message has arrived (see NOTE [Probe first] in requests.h). Messages can
/// therefore overtake queued collectives and each other. Messages are polled by
/// the engine's thread and by threads that wait for a message. Thread-safe.
class Messages {
 public:
  explicit Messages(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  void add(Message message);
  /// Advances every message, and completes the work of each message that has
  /// finished, failed or timed out. Returns immediately if another thread is
  /// polling.
  void poll();
  bool empty() const;

 private:
  /// Returns whether the message has finished or failed. Sets `error` if it
  /// failed.
  bool is_finished(Message& message, std::exception_ptr& error);
  void check_deadline(Message& message) const;
  void check_other_rank(Message& message) const;

  const std::shared_ptr<Group> group_;
  mutable std::mutex mutex_;
  std::list<Message> open_;
};

}  // namespace accelerate::mpi
