// SPDX-License-Identifier: Apache-2.0
// Runs `accelerate launch` on one machine, from the creation of its temporary
// folder to its exit code.
#pragma once

#include "launch/control_plane.h"
#include "launch/plan.h"
#include "launch/supervisor.h"

namespace accelerate {

/// Runs this machine's workers until they exit: starts a generation, supervises
/// its workers, and starts the next generation if a worker failed and a restart
/// is allowed. Prints the report of a failure. Must be called from the main
/// thread of a process that has no other threads yet.
RunResult run_session(
    const LaunchPlan& requested, const LaunchMessages& messages);

}  // namespace accelerate
