// SPDX-License-Identifier: Apache-2.0
// Several machines as one job: the side that is met, and the side that comes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/error.h"
#include "base/socket.h"
#include "launch/meeting.h"
#include "launch/store_server.h"
#include "launch/supervisor.h"

namespace accelerate {

/// What all machines need to know for one start of the workers.
struct MeetingResult {
  std::int64_t machine_rank = 0;
  std::string launch_id;
  std::string main_host;
  std::string main_port;
  /// Where one of the others is, as this machine sees it; empty: machine 0, at
  /// its endpoint.
  std::string other_address;
};

/// One machine's link to the others.
class Machines : public OtherMachines {
 public:
  /// Waits until every machine has come for this start of the workers, counted
  /// from 0; tries while nobody listens there yet. Throws `DistributedError`
  /// with a table when one does not in time, `ConfigError` when they disagree.
  virtual MeetingResult meet(
      std::int64_t restart, std::chrono::milliseconds timeout) = 0;
};

struct MachinesOptions {
  MachineCard card;
  std::int64_t num_machines = 2;
  std::int64_t local_processes = 1;
  /// Of a machine that comes. Asked once machine 0 has answered: with a shared
  /// home it has made the secret by then. Empty: there is none, and `no_secret`
  /// says why.
  std::function<std::string()> secret;
  std::function<std::optional<ConfigError>()> no_secret;
  Endpoint endpoint;  ///< Of machine 0.
  std::string launch_id;
  /// Machine 0 only: the port rank 0 may open, for each start.
  std::function<std::string()> reserve_port;
  std::function<void(const std::string&)> warn;
  /// The steps of this machine's ranks; called from other threads.
  std::function<std::vector<RankStatus>()> local_steps;
};

/// The machine that is met. `server` must listen on the endpoint.
std::unique_ptr<Machines> host_machines(
    const MachinesOptions& options, StoreServer& server);

/// A machine that comes, with its first meeting.
std::unique_ptr<Machines> join_machines(const MachinesOptions& options);

}  // namespace accelerate
