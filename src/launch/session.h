// SPDX-License-Identifier: Apache-2.0
// One `accelerate launch` on one machine, from its folder to its exit code.
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
  Settings settings;  ///< Completed.
  Hardware hardware;
  Environment environment;
  std::vector<std::string> words;  ///< The program, ready to run.
  bool is_python = false;
  std::string version;
  std::string torch_version;  ///< Which this installation is made for.
  /// For people, before the workers start.
  std::function<void(const std::string&)> say;
  std::function<void(const std::string&)> warn;
};

struct SessionResult {
  int exit_code = 0;
  std::optional<Failure> failure;
};

/// Where the machines of a job meet. Throws `ConfigError` when nobody said.
Endpoint main_endpoint(const Settings& settings);
/// The port the program may open on machine 0 if it is free: the one after
/// ours, for firewalls that open a small range.
std::uint16_t main_port_on_machines(const Endpoint& endpoint);

/// Runs the job's workers of this machine to their end. Call from the main
/// thread of a process that has no other threads yet.
SessionResult run_session(const SessionOptions& options);

}  // namespace accelerate
