// SPDX-License-Identifier: Apache-2.0
// Reads the machines of a job from Slurm's environment variables.
#pragma once

#include <string>
#include <vector>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

/// Expands Slurm's node list: "node[01-03,7],login" becomes "node01", "node02",
/// "node03", "node7", "login". Throws `ConfigError` if the list is malformed or
/// has more than 65536 nodes.
std::vector<std::string> expand_node_list(const std::string& text);

/// In a Slurm job with several nodes, sets the number of machines and the rank
/// of this machine, and fills in the address and port of machine 0 if the user
/// did not set them. `--machine_rank` on the command line overrides the rank.
/// `--num_machines 1` on the command line keeps the job on this node. If a
/// configuration file says `num_machines: 1`, its number of processes applies
/// to each node. Throws `ConfigError` if the user set a number of machines that
/// is neither 1 nor the number of nodes, or if the launcher was started more
/// than once on a node.
void apply_slurm(Settings& settings, const Environment& environment);

}  // namespace accelerate
