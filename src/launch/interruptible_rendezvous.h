// SPDX-License-Identifier: Apache-2.0
// Lets a signal interrupt the rendezvous with the other machines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "launch/control_plane.h"
#include "launch/output.h"
#include "launch/signal_queue.h"

namespace accelerate {

/// Runs the rendezvous, which may take minutes, in a second thread while the
/// calling thread handles signals.
class InterruptibleRendezvous {
 public:
  InterruptibleRendezvous(
      ControlPlane& control_plane, Output& output, SignalQueue& signals)
      : control_(control_plane), output_(output), signals_(signals) {}

  /// Returns generation `number`, or nothing if a signal interrupted the
  /// rendezvous. `interrupt` then returns that signal.
  std::optional<Generation> run(std::int64_t number);

  int interrupt() const { return interrupt_; }

 private:
  using Clock = std::chrono::steady_clock;

  void exit_when_stuck() const;
  void tick();
  void handle_signals();

  ControlPlane& control_;
  Output& output_;
  SignalQueue& signals_;
  int interrupt_ = 0;
  Clock::time_point interrupted_at_;
  Clock::time_point ticked_at_;
};

}  // namespace accelerate
