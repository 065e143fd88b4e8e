// SPDX-License-Identifier: Apache-2.0
// A job that `mpirun` starts.
#pragma once

#include <string>

#include "config/settings.h"
#include "launch/plan.h"

namespace accelerate {

/// If a hostfile is set, replaces `plan.argv` with an `mpirun` command, which
/// becomes the only process that the launcher monitors. `mpirun` assigns ranks
/// and machines to the processes of the job. The settings are passed to these
/// processes as environment variables.
///
/// `free_port` becomes MASTER_PORT when the user set no port and the job runs
/// on one machine. Throws `ConfigError` for flags that have no effect with
/// `mpirun`.
void use_mpirun(LaunchPlan& plan, const std::string& free_port);

/// Returns whether `use_mpirun` needs a free port.
bool needs_free_mpirun_port(const Settings& settings);

}  // namespace accelerate
