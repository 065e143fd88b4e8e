// SPDX-License-Identifier: Apache-2.0
// Connects the machines of a job: machine 0 and the joining machines.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/error.h"
#include "base/socket.h"
#include "launch/machine_rendezvous.h"
#include "launch/store_server.h"
#include "launch/supervisor.h"

namespace accelerate {

/// What a machine needs to know to start its workers.
struct RendezvousResult {
  std::int64_t machine_rank = 0;
  std::string launch_id;
  std::string main_hostname;
  std::string main_port;
  /// On machine 0, the address of one other machine. Empty on the other
  /// machines.
  std::string other_address;
};

/// This machine's link to the other machines of the job.
class MachineLink : public OtherMachines {
 public:
  /// Waits until every machine has joined the rendezvous for restart number
  /// `restart` (0: the first start). A joining machine retries until machine 0
  /// listens. Throws `DistributedError` with a table of the machines if a
  /// machine does not join in time, and `ConfigError` if the machines have
  /// different settings.
  virtual RendezvousResult rendezvous(
      std::int64_t restart, std::chrono::milliseconds timeout) = 0;
};

struct MachineLinkOptions {
  MachineInfo machine;
  std::int64_t num_machines = 2;
  std::int64_t local_processes = 1;
  /// Joining machines only: returns the job secret. Called only after machine 0
  /// has answered, because machine 0 may create the secret in a shared home
  /// folder. An empty result means that there is no secret; `secret_error` then
  /// returns the reason.
  std::function<std::string()> secret;
  std::function<std::optional<ConfigError>()> secret_error;
  Endpoint endpoint;  ///< The address and port of machine 0.
  std::string launch_id;
  /// Machine 0 only: reserves a port that rank 0 may open. Called for each
  /// restart.
  std::function<std::string()> reserve_port;
  std::function<void(const std::string&)> warn;
  /// Returns the current steps of this machine's ranks. Must be thread-safe,
  /// because other threads call it.
  std::function<std::vector<RankStatus>()> local_steps;
};

/// Creates the link for machine 0. `server` must listen on the endpoint.
std::unique_ptr<MachineLink> create_main_machine(
    const MachineLinkOptions& options, StoreServer& server);

/// Creates the link for a joining machine. The link connects during the first
/// call of `rendezvous`.
std::unique_ptr<MachineLink> create_joining_machine(
    const MachineLinkOptions& options);

}  // namespace accelerate
