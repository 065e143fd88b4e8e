// SPDX-License-Identifier: Apache-2.0
// `send` and `recv` that are under way.
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
  /// The rank at the other end; empty for a receive from any.
  std::optional<int> peer;
  Clock::time_point deadline;
  /// Runs when the data has arrived.
  std::function<void()> finish;
  /// When to look next whether the peer is still in the group.
  Clock::time_point look_at_peer{};
  bool peer_left = false;
};

/// All messages of a group that are not finished.
///
/// They were handed to MPI when they were posted, so they overtake queued
/// collectives and each other. Somebody has to look after them: the engine's
/// thread does, and so does whoever waits. Thread-safe.
class Messages {
 public:
  explicit Messages(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  void add(Message message);
  /// Moves every message on and completes the works of those that are done,
  /// failed or late. Returns at once when another thread is at it.
  void poll();
  bool empty() const;

 private:
  /// True when the message is over; `error` then says how.
  bool is_over(Message& message, std::exception_ptr& error);
  void check_time(Message& message) const;
  void check_peer(Message& message) const;

  const std::shared_ptr<Group> group_;
  mutable std::mutex mutex_;
  std::list<Message> open_;
};

}  // namespace accelerate::mpi
