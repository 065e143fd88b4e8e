// SPDX-License-Identifier: Apache-2.0
// Starts the workers on one machine, monitors them, stops them, and reports the
// result.
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

/// One machine's view of the other machines in a job.
class OtherMachines {
 public:
  virtual ~OtherMachines() = default;
  /// A descriptor that is readable when `take_failure` may return a failure.
  virtual int event_fd() const = 0;
  /// Returns a failure that happened on another machine in this generation, if
  /// any. Does not return the same failure again.
  virtual std::optional<Failure> take_failure() = 0;
  /// Reports to the other machines that a rank on this machine failed.
  virtual void report_failure(const Failure& failure) = 0;
  /// Reports to the other machines that all workers on this machine have
  /// exited.
  virtual void report_done() = 0;
  /// Whether, on every machine, all workers have exited or the machine has
  /// disconnected.
  virtual bool all_done() = 0;
  /// The status of ranks on other machines. Asks the machines, and waits at
  /// most one second for their answers.
  virtual std::vector<RankStatus> status() { return {}; }
  /// Makes a `rendezvous` call that is running in another thread throw.
  virtual void cancel_rendezvous() = 0;
  /// Does periodic work; must be called at least once a second.
  virtual void tick() {}
};

struct SupervisorOptions {
  std::int64_t num_processes = 1;
  std::int64_t max_restarts = 0;
  std::chrono::duration<double> stop_timeout{10};
  /// Time for workers to save a checkpoint after an interrupt.
  std::chrono::duration<double> grace_period{30};
  std::chrono::duration<double> monitor_interval{0.1};
  std::string hostname;
  std::string launch_id;
  /// The path of each worker's error file.
  std::function<std::string(std::int64_t rank)> error_file;
  /// The path of each rank's log files; an empty result means no log files.
  std::function<std::string(std::int64_t rank)> log_path;
  /// The current step of a worker on this machine.
  std::function<std::optional<std::int64_t>(std::int64_t rank)> step;
  /// Returns the worker commands for a restart (0: the first start). With
  /// several machines, first runs the rendezvous, which may block for minutes.
  std::function<std::vector<WorkerCommand>(std::int64_t restart)> commands;
  /// Ends all waiting requests at the store. Empty on machines without a store.
  std::function<void(const std::string& reason)> abort_store;
  std::function<void(std::int64_t restart)> start_store_generation;
  std::function<std::vector<RankStatus>()> store_status;
  /// Called when a worker's Unix process group is added or removed.
  std::function<void(pid_t group, bool added)> on_group;
  OtherMachines* others = nullptr;
};

struct SupervisorResult {
  int exit_code = 0;
  std::optional<Failure> failure;
};

/// Runs the job until its workers have exited. Call it from the main thread.
SupervisorResult supervise(
    const SupervisorOptions& options, Output& output, SignalQueue& signals);

}  // namespace accelerate
