// SPDX-License-Identifier: Apache-2.0
// The scenarios of tests with real processes, run by each rank.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accelerate/group.h"

namespace accelerate {

/// The arguments of a worker: `process_worker <scenario>
/// [shm|gloo|network|auto] [timeout in ms] [warn_after in ms] [argument]`.
///
/// `network` is Gloo between ranks that do not try to share memory, as if each
/// rank ran on its own machine.
struct WorkerOptions {
  std::string scenario;
  GroupOptions group;
  std::string argument;
};

/// Joins the run that the environment variables describe. Prints `joined
/// <backend>` and the inode of each shared-memory file.
Group join(const GroupOptions& options);

/// Runs `body` and prints `<name>: ok`, or the type, text and hint of its
/// exception.
void attempt(const std::string& name, const std::function<void()>& body);

/// Waits until the test writes a line to this process's stdin.
void wait_for_line();

using Scenario = std::function<void(const WorkerOptions&)>;
const std::map<std::string, Scenario>& scenarios();

}  // namespace accelerate
