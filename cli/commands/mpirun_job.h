// SPDX-License-Identifier: Apache-2.0
// A job that `mpirun` starts.
#pragma once

#include <string>

#include "config/settings.h"
#include "launch/plan.h"

namespace accelerate {

/// Replaces `plan.argv` with an `mpirun` command if a hostfile is set. `mpirun`
/// is then the only process that the launcher monitors; it assigns ranks and
/// machines to the processes of the job. These processes get the settings as
/// environment variables.
///
/// `free_port` becomes MASTER_PORT when the user set no port and the job runs
/// on one machine. Throws `ConfigError` for flags that have no effect with
/// `mpirun`.
void use_mpirun(LaunchPlan& plan, const std::string& free_port);

/// Returns whether `use_mpirun` needs a free port.
bool needs_free_mpirun_port(const Settings& settings);

}  // namespace accelerate
