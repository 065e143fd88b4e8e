// SPDX-License-Identifier: Apache-2.0
// The messages between the machines of a job. Each message is a JSON object in
// an `exchange` request to the store of machine 0. `rank` is the rank of the
// sender's machine, and `restart` is the number of the generation:
//
//   join   {restart, machine}  answered when the rendezvous completes or fails
//   poll   {rank}              answered with the next event, or `nothing` after
//                              a while
//   fail   {rank, restart, failure}
//                              a rank on the sender's machine failed
//   done   {rank, restart}     all workers on the sender's machine have
//                              exited
//   status {rank}              answered with the status of all ranks
//   steps  {rank, ranks}       the optimizer steps of the ranks on the sender's
//                              machine; the answer to the event `steps_wanted`
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "accelerate/json.h"
#include "base/unique_fd.h"
#include "launch/failure.h"

namespace accelerate {

/// Machine 0 answers a `poll` message after at most this time, so that both
/// sides know that the connection is alive.
constexpr std::chrono::seconds kPollInterval{5};
/// Timeout for answers from machine 0 that do not depend on other machines.
constexpr std::chrono::milliseconds kAnswerTimeout{30000};

/// Events from other machines, with a descriptor to wait on. Thread-safe.
class MachineEvents {
 public:
  MachineEvents();

  int fd() const { return fd_.get(); }
  /// Stores a failure that happened on another machine, unless a failure is
  /// already stored.
  void add_failure(Failure failure);
  void set_all_done();
  std::optional<Failure> take_failure();
  bool all_done() const;
  void reset();

 private:
  void notify() const;

  UniqueFd fd_;
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
  bool all_done_ = false;
};

/// Returns the failure that is reported when a machine disconnects. `rank` is
/// the machine's first rank.
Failure disconnected_machine(
    const std::string& name, std::int64_t rank, double seconds);

std::string event_text(const char* type, Json body = Json::object());

}  // namespace accelerate
