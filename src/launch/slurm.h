// SPDX-License-Identifier: Apache-2.0
// What Slurm already knows about the machines of a job.
#pragma once

#include <string>
#include <vector>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

/// Expands Slurm's list of hosts: "node[01-03,7],login" to "node01", "node02",
/// "node03", "node7", "login". Throws `ConfigError` when it is malformed or
/// names more than 65536 hosts.
std::vector<std::string> expand_host_list(const std::string& text);

/// Under Slurm with several nodes, fills in machines, rank, address and port
/// where nobody said otherwise. A file for one machine is used on each node;
/// only a typed `--num_machines 1` keeps the job on this one. Throws
/// `ConfigError` when another number of machines was asked for than there are
/// nodes, and when the launcher was started more than once on a machine.
void apply_slurm(Settings& settings, const Environment& environment);

}  // namespace accelerate
