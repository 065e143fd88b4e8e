// SPDX-License-Identifier: Apache-2.0
// Starts the workers on one machine, monitors them, stops them, and reports the
// result.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/failure.h"
#include "launch/plan.h"
#include "launch/worker_process.h"

namespace accelerate {

class ControlPlane;
class Guardian;
class Output;
class SignalQueue;

struct SupervisorOptions {
  JobShape shape;
  std::chrono::duration<double> stop_timeout{10};
  /// Time for workers to save a checkpoint after an interrupt.
  std::chrono::duration<double> grace_period{30};
  std::chrono::duration<double> monitor_interval{0.1};
  std::string hostname;
};

/// The objects that the supervisor uses but does not own.
struct SupervisorContext {
  ControlPlane& control_plane;
  Guardian& guardian;
  Output& output;
  SignalQueue& signals;
};

/// How the workers ended.
struct RunResult {
  int exit_code = 0;
  std::optional<Failure> failure;
  bool was_interrupted = false;  ///< Whether the launcher received a signal.
  /// Why output of the workers could not be written; empty if all output was
  /// written.
  std::string lost_output = {};
};

/// Runs one generation of this machine's workers. Returns when all of these
/// workers have exited and the other machines are also done. Must be called
/// from the main thread.
RunResult supervise(
    const std::vector<WorkerCommand>& commands,
    const SupervisorOptions& options,
    const SupervisorContext& context);

}  // namespace accelerate
