// SPDX-License-Identifier: Apache-2.0
// What machines of one job tell each other. Every message is one JSON object
// in a store's `exchange` request:
//
//   enter {restart, card}   answered when all machines have come, or never will
//   poll  {rank}            answered with the next event, or none after a while
//   fail  {rank, restart, failure}
//                           a rank of that machine failed
//   done  {rank, restart}   all its workers have ended
//   status {rank}           answered with what machine 0 knows about any rank
//   steps {rank, ranks}     the answer to the event `steps_wanted`
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

/// A poll is answered at least this often, so that both sides see traffic.
constexpr std::chrono::seconds kPollInterval{5};
/// For answers that need nobody else.
constexpr std::chrono::milliseconds kAnswerTimeout{30000};

/// What has happened elsewhere, with a descriptor to wait for it. Thread-safe.
class MachineEvents {
 public:
  MachineEvents();

  int fd() const { return fd_.get(); }
  /// The first one is kept.
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

/// The failure that a machine's silence is. `rank` is its first.
Failure lost_machine(
    const std::string& name, std::int64_t rank, double seconds);

std::string event_text(const char* type, Json body = Json::object());

}  // namespace accelerate
