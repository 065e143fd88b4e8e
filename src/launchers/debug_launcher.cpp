// SPDX-License-Identifier: Apache-2.0
#include "accelerate/launchers.h"
#include "launchers/forked_ranks.h"

namespace accelerate {

void debug_launcher(
    const std::function<void()>& function,
    const DebugLauncherOptions& options) {
  run_forked(
      function,
      {.launcher = "debug_launcher",
       .num_processes = options.num_processes,
       .timeout = options.timeout});
}

}  // namespace accelerate
