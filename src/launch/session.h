// SPDX-License-Identifier: Apache-2.0
// One run of `accelerate launch` on one machine, from creating its temporary
// folder to returning its exit code.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/socket.h"
#include "config/environment.h"
#include "config/settings.h"
#include "launch/failure.h"
#include "launch/hardware.h"

namespace accelerate {

struct SessionOptions {
  Settings settings;  ///< Completed by `complete_settings`.
  Hardware hardware;
  Environment environment;
  std::vector<std::string> argv;  ///< The program with its arguments.
  bool is_python = false;
  std::string version;
  std::string torch_version;  ///< The LibTorch version of this installation.
  /// Prints status messages before the workers start.
  std::function<void(const std::string&)> print_status;
  std::function<void(const std::string&)> warn;
};

struct SessionResult {
  int exit_code = 0;
  std::optional<Failure> failure;
};

/// The endpoint of machine 0. Throws `ConfigError` if the address of machine 0
/// is not set.
Endpoint main_endpoint(const Settings& settings);
/// The port that the program should open on machine 0: the launcher's port + 1,
/// so that a firewall needs to open only a small range of ports. If this port
/// is in use, the launcher chooses another port.
std::uint16_t main_port_on_machines(const Endpoint& endpoint);

/// Runs this machine's workers until they exit. Call it from the main thread of
/// a process that has no other threads yet.
SessionResult run_session(const SessionOptions& options);

}  // namespace accelerate
