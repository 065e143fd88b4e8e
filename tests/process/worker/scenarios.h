// SPDX-License-Identifier: Apache-2.0
// What one rank does in a test with real processes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accelerate/group.h"

namespace accelerate {

/// How the worker joins: `process_worker <scenario> [shm|gloo|network|auto]
/// [timeout in ms] [warn_after in ms] [argument]`.
///
/// `network` is Gloo between ranks that do not look for common memory, as if
/// each had its own host.
struct WorkerOptions {
  std::string scenario;
  GroupOptions group;
  std::string argument;
};

/// Joins the run that the environment describes, and prints `joined <backend>`
/// and the inode of each shared segment.
Group join(const GroupOptions& options);

/// Runs `body` and prints `<name>: ok`, or the type, text and hint of what it
/// threw.
void attempt(const std::string& name, const std::function<void()>& body);

/// Returns when the test has written a line to this process's stdin.
void wait_to_be_told();

using Scenario = std::function<void(const WorkerOptions&)>;
const std::map<std::string, Scenario>& scenarios();

}  // namespace accelerate
