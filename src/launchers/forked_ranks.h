// SPDX-License-Identifier: Apache-2.0
// Runs a function in forked processes on this machine, for `debug_launcher` and
// `notebook_launcher`.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace accelerate {

struct ForkedRun {
  /// The name of the launcher function, for error messages.
  std::string launcher;
  int num_processes = 1;
  /// Whether to use the CPU even if there is an accelerator.
  bool cpu = true;
  std::string mixed_precision = "no";
  std::chrono::milliseconds timeout = std::chrono::hours(24);
};

/// Forks `num_processes` child processes, runs `function` in each child as one
/// rank, and waits for all children.
///
/// Throws `ArgumentError` if `num_processes` or `timeout` is not positive,
/// `StateError` if this process cannot be forked safely, and `DistributedError`
/// with the first failure if a rank fails.
void run_forked(const std::function<void()>& function, const ForkedRun& run);

}  // namespace accelerate
