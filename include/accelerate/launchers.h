// SPDX-License-Identifier: Apache-2.0
// Several processes from inside one program.
//
//     accelerate::debug_launcher([] {
//       accelerate::PartialState state;
//       state.print("we are ", state.num_processes());
//     }, {.num_processes = 3});
#pragma once

#include <chrono>
#include <functional>

#include "accelerate/export.h"

namespace accelerate {

struct DebugLauncherOptions {
  int num_processes = 2;
  /// The whole run may take this long.
  std::chrono::milliseconds timeout = std::chrono::hours(24);
};

/// Runs `function` in forked processes of this host, on the CPU, and returns
/// when all have ended.
///
/// Throws `StateError` when forking is not safe any more, because this process
/// has a `PartialState` or threads (OpenMP and autograd make some); otherwise
/// `DistributedError` with the rank that failed first and what it threw, after
/// the others were stopped.
ACCELERATE_API void debug_launcher(
    const std::function<void()>& function,
    const DebugLauncherOptions& options = {});

}  // namespace accelerate
