// SPDX-License-Identifier: Apache-2.0
// The thread that works for a group.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <c10/util/intrusive_ptr.h>

#include "comm/backends/mpi/collectives.h"
#include "comm/backends/mpi/messages.h"
#include "comm/backends/mpi/work.h"

namespace accelerate::mpi {

/// A collective that waits for its turn.
struct Job {
  c10::intrusive_ptr<MpiWork> work;
  std::function<void(Collectives&)> body;
  /// Keeps the tensors of `body` alive, for ever if it fails half-way.
  std::shared_ptr<void> owner;
};

/// Runs collectives one after the other, in the order of their calls, and
/// looks after messages meanwhile.
///
/// Thread-safe. `close` must have returned before the last reference goes;
/// `Engine::start` hands out a pointer that sees to it.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  static std::shared_ptr<Engine> start(std::shared_ptr<Group> group);

  explicit Engine(std::shared_ptr<Group> group);

  /// Runs the job when all earlier ones are done: here and now if `here` and
  /// none is open, else on the engine's thread. `make` gets the job's sequence
  /// number, which counts the collectives of the group from 1.
  c10::intrusive_ptr<MpiWork> submit(
      const std::function<Job(std::uint64_t)>& make, bool here);
  void post(Message message);
  void poll_messages() { messages_.poll(); }

  /// How many collectives were submitted.
  std::uint64_t sequence();

  /// Finishes what is open, says farewell to the group, ends the thread.
  void close();
  /// The same, but gives up on what is open: the group is broken then.
  void abandon();

 private:
  void serve();
  void require_open() const;
  bool has_turn() const;
  bool is_finished() const;
  void run(Job& job);

  const std::shared_ptr<Group> group_;
  Messages messages_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool closing_ = false;
  std::uint64_t sequence_ = 0;
  std::uint64_t closer_ = 0;
  std::thread thread_;
};

}  // namespace accelerate::mpi
