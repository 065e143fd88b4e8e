// SPDX-License-Identifier: Apache-2.0
// Lets a signal interrupt the rendezvous with the other machines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "launch/supervisor.h"

namespace accelerate {

/// Runs the rendezvous, which may take minutes, in a second thread while the
/// calling thread handles signals.
class InterruptibleRendezvous {
 public:
  InterruptibleRendezvous(
      const SupervisorOptions& options, Output& output, SignalQueue& signals)
      : options_(options), output_(output), signals_(signals) {}

  /// Returns the worker commands for restart number `restart`, or nothing if a
  /// signal interrupted the rendezvous. `interrupt` then returns that signal.
  std::optional<std::vector<WorkerCommand>> run(std::int64_t restart);

  int interrupt() const { return interrupt_; }

 private:
  using Clock = std::chrono::steady_clock;

  void exit_when_stuck() const;
  void tick();
  void handle_signals();

  const SupervisorOptions& options_;
  Output& output_;
  SignalQueue& signals_;
  int interrupt_ = 0;
  Clock::time_point interrupted_at_;
  Clock::time_point ticked_at_;
};

}  // namespace accelerate
