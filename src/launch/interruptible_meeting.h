// SPDX-License-Identifier: Apache-2.0
// Meeting the other machines while signals are looked at.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "launch/supervisor.h"

namespace accelerate {

/// Meeting the other machines may take minutes, and signals are for us: a
/// second thread meets, this one looks at them.
class InterruptibleMeeting {
 public:
  InterruptibleMeeting(
      const SupervisorOptions& options, Output& output, SignalQueue& signals)
      : options_(options), output_(output), signals_(signals) {}

  /// The commands of start number `restart`. None: it was interrupted, by
  /// `interrupt()`.
  std::optional<std::vector<WorkerCommand>> run(std::int64_t restart);

  int interrupt() const { return interrupt_; }

 private:
  using Clock = std::chrono::steady_clock;

  void end_when_stuck() const;
  void tick();
  void take_signals();

  const SupervisorOptions& options_;
  Output& output_;
  SignalQueue& signals_;
  int interrupt_ = 0;
  Clock::time_point interrupted_at_;
  Clock::time_point ticked_at_;
};

}  // namespace accelerate
