// SPDX-License-Identifier: Apache-2.0
// The thread that runs the collectives of a process group.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <c10/util/intrusive_ptr.h>

#include "comm/backends/mpi/messages.h"
#include "comm/backends/mpi/mpi_collectives.h"
#include "comm/backends/mpi/work.h"

namespace accelerate::mpi {

/// A queued collective.
struct Job {
  c10::intrusive_ptr<MpiWork> work;
  std::function<void(Collectives&)> body;
  /// Keeps the tensors that `body` uses alive; leaked if `body` fails halfway.
  std::shared_ptr<void> owner;
};

/// Runs collectives one after the other, in the order of the calls, and polls
/// point-to-point messages in the meantime.
///
/// Thread-safe. The owner must call `close` or `abandon`. Until then, the
/// engine's thread keeps the engine alive.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  static std::shared_ptr<Engine> start(std::shared_ptr<Group> group);

  explicit Engine(std::shared_ptr<Group> group);

  /// Runs the job after all earlier jobs: in the calling thread if `in_caller`
  /// is true and no job is pending, otherwise on the engine's thread. `make`
  /// creates the job from its sequence number; the first job has number 1.
  c10::intrusive_ptr<MpiWork> submit(
      const std::function<Job(std::uint64_t)>& make, bool in_caller);
  void post(Message message);
  void poll_messages() { messages_.poll(); }

  /// The number of collectives submitted so far.
  std::uint64_t sequence();

  /// Finishes pending jobs and messages, sends the departure notice and stops
  /// the thread.
  void close();
  /// Like `close`, but pending jobs and messages fail, which makes the group
  /// unusable.
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
