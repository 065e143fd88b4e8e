// SPDX-License-Identifier: Apache-2.0
// Starts the workers of one machine, watches them, stops them, and says how it
// went.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/failure.h"
#include "launch/output.h"
#include "launch/signal_queue.h"
#include "launch/store_server.h"
#include "launch/worker_process.h"

namespace accelerate {

/// The other machines of a job, as one machine's supervisor sees them.
class OtherMachines {
 public:
  virtual ~OtherMachines() = default;
  /// Readable when `take_failure` may have something new.
  virtual int event_fd() const = 0;
  /// A failure elsewhere in this generation, once.
  virtual std::optional<Failure> take_failure() = 0;
  /// Tells the others that a rank of this machine failed.
  virtual void report_failure(const Failure& failure) = 0;
  /// This machine's workers have all ended.
  virtual void report_done() = 0;
  /// So have everybody else's, or they are lost.
  virtual bool all_done() = 0;
  /// What ranks elsewhere are doing; asks them, for a second at most.
  virtual std::vector<RankStatus> status() { return {}; }
  /// Ends a meeting that is under way in another thread: it throws.
  virtual void cancel_meeting() = 0;
  /// Called at least once a second.
  virtual void tick() {}
};

struct SupervisorOptions {
  std::int64_t num_processes = 1;
  std::int64_t max_restarts = 0;
  std::chrono::duration<double> stop_timeout{10};
  /// What an interrupt leaves workers for a checkpoint.
  std::chrono::duration<double> grace_period{30};
  std::chrono::duration<double> monitor_interval{0.1};
  std::string host;
  std::string launch_id;
  /// Where each worker's error file is.
  std::function<std::string(std::int64_t rank)> error_file;
  /// Where each rank's output is kept; empty: nowhere.
  std::function<std::string(std::int64_t rank)> log_path;
  /// The step a worker of this machine is at.
  std::function<std::optional<std::int64_t>(std::int64_t rank)> step;
  /// The commands of a start, counted from 0. With other machines it meets
  /// them first, and may take as long as they do.
  std::function<std::vector<WorkerCommand>(std::int64_t restart)> commands;
  /// Ends every wait at the store; nothing on machines without one.
  std::function<void(const std::string& reason)> abort_store;
  std::function<void(std::int64_t restart)> start_store_generation;
  std::function<std::vector<RankStatus>()> store_status;
  /// Told of each worker's process group.
  std::function<void(pid_t group, bool added)> on_group;
  OtherMachines* others = nullptr;
};

struct SupervisorResult {
  int exit_code = 0;
  std::optional<Failure> failure;
};

/// Runs the job to its end. Call from the main thread.
SupervisorResult supervise(
    const SupervisorOptions& options, Output& output, SignalQueue& signals);

}  // namespace accelerate
