// SPDX-License-Identifier: Apache-2.0
// Reads the machines of a job from Slurm's environment variables.
#pragma once

#include <optional>

#include "config/environment.h"
#include "config/settings.h"
#include "config/slurm_step.h"

namespace accelerate {

/// Takes the machines of the job from the Slurm step. In a step on several
/// nodes, sets the number of machines and the rank of this machine, and the
/// address of machine 0 if the user did not set it. `--machine_rank` on the
/// command line overrides the rank. `--num_machines 1` on the command line
/// keeps the job on this node. If a configuration file contains `num_machines:
/// 1`, its number of processes applies to each node. Throws `ConfigError` if
/// the user set a number of machines that is neither 1 nor the number of nodes,
/// or if Slurm's variables are missing or contradict each other.
void apply_slurm(Settings& settings, const Environment& environment);

/// Throws `ConfigError` if `srun` started several launchers on a node, or did
/// not start this launcher although the job has several nodes.
void check_slurm_launch(
    const Settings& settings, const Environment& environment);

/// Returns the step whose nodes are the machines of this job; none if the user
/// chose other machines.
std::optional<SlurmStep> step_of_machines(
    const Settings& settings, const Environment& environment);

}  // namespace accelerate
