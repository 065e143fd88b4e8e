// SPDX-License-Identifier: Apache-2.0
// A function in forked processes of this host: what `debug_launcher` and
// `notebook_launcher` share.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace accelerate {

struct ForkedRun {
  /// The launcher's name, for messages.
  std::string launcher;
  int num_processes = 1;
  /// Keep to the CPU even where there is an accelerator.
  bool cpu = true;
  std::string mixed_precision = "no";
  std::chrono::milliseconds timeout = std::chrono::hours(24);
};

/// Forks, runs `function` in each process as one rank, waits for all.
///
/// Throws `ArgumentError` for a number or a time that is not positive,
/// `StateError` when this process cannot be forked, `DistributedError` with
/// the first failure.
void run_forked(const std::function<void()>& function, const ForkedRun& run);

}  // namespace accelerate
