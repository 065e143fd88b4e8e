// SPDX-License-Identifier: Apache-2.0
// The messages between the machines of a job: which machines take part in a
// generation, which rank failed, which machines are done, and the status of
// each rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/failure.h"
#include "launch/machine_events.h"
#include "launch/machine_rendezvous.h"
#include "launch/plan.h"
#include "launch/store_server.h"

namespace accelerate {

/// One machine's part in its job. `run_session` starts the generations; the
/// supervisor uses the other functions while the workers of a generation run.
///
/// Call all functions from one thread, except `start_generation`: while it runs
/// in another thread, `cancel` and `tick` may be called.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  /// Starts generation `number` (0: the first start). Waits until every machine
  /// has joined; a joining machine retries until machine 0 listens. Throws
  /// `DistributedError` with a table of the machines if a machine does not join
  /// in time, and `ConfigError` if the machines have different settings.
  virtual Generation start_generation(std::int64_t number) = 0;
  /// Makes `start_generation` throw if another thread is waiting in it.
  virtual void cancel() = 0;

  /// Returns the events of this generation: failures on other machines, and
  /// whether every machine is done. A machine is done when all of its workers
  /// have exited, or when it has disconnected.
  MachineEvents& events() { return events_; }
  /// Reports to the other machines that a rank on this machine failed.
  virtual void report_failure(const Failure& failure) = 0;
  /// Reports to the other machines that all workers on this machine have
  /// exited.
  virtual void report_done() = 0;
  /// Does periodic work; must be called at least once a second.
  virtual void tick() {}

  /// Ends all waiting requests at the store, if this machine runs the store.
  virtual void abort_store(const std::string& reason) = 0;
  /// Returns the status of the ranks that are connected to this machine's
  /// store.
  virtual std::vector<RankStatus> store_status() const = 0;
  /// Returns the status of all ranks. Asks the other machines, and waits at
  /// most one second for their answers.
  virtual std::vector<RankStatus> status() = 0;

 protected:
  MachineEvents events_;
};

/// Where the launcher prints messages while no workers are running.
struct LaunchMessages {
  std::function<void(const std::string&)> print_status;
  /// May be called from other threads.
  std::function<void(const std::string&)> warn;
  /// Returns the report of a failure. If not set, no report is printed.
  std::function<std::string(const Failure&)> failure_text = {};
};

/// Creates the control plane for this machine and, on one machine or on machine
/// 0, opens the store. `plan` must outlive the result.
std::unique_ptr<ControlPlane> open_control_plane(
    const LaunchPlan& plan, const LaunchMessages& messages);

/// Where machine 0 listens: the store, the endpoint for the other machines, and
/// the program's port.
struct MainMachineOptions {
  StoreServerOptions store;
  Endpoint endpoint;  ///< The endpoint to which other machines connect.
  /// The program's MASTER_PORT; 0 selects a free port.
  std::uint16_t program_port = 0;
};

/// Create the control plane for a job on one machine, for machine 0 of several
/// machines, and for a joining machine, respectively. The first two throw
/// `IoError` when the store cannot be opened. A joining machine connects in
/// `start_generation`.
std::unique_ptr<ControlPlane> create_one_machine(
    const LaunchPlan& plan,
    const StoreServerOptions& store,
    std::function<void(const std::string&)> warn);
std::unique_ptr<ControlPlane> create_main_machine(
    const LaunchPlan& plan,
    const MachineInfo& machine,
    const MainMachineOptions& options,
    std::function<void(const std::string&)> warn);
std::unique_ptr<ControlPlane> create_joining_machine(
    const LaunchPlan& plan, const MachineInfo& machine, MainAddress main);

/// Returns the optimizer step of each rank on this machine. `machine_rank` is
/// the rank of this machine.
std::vector<RankStatus> local_steps(
    const LaunchPlan& plan, std::int64_t machine_rank);

}  // namespace accelerate
