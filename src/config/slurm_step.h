// SPDX-License-Identifier: Apache-2.0
// The Slurm step that started this process, read from Slurm's variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"

namespace accelerate {

/// A step of a Slurm job: the processes that one `srun` started.
struct SlurmStep {
  std::int64_t job = 0;
  std::int64_t step = 0;

  /// Returns the step of this process. Returns nothing in a batch script and in
  /// the shell of `salloc`, which belong to a job but were not started by
  /// `srun`.
  static std::optional<SlurmStep> of(const Environment& environment);

  /// Returns text such as "step 0 of Slurm job 12".
  std::string name() const;

  /// Returns the ports on which the step's main process may listen, in order of
  /// preference. The port ranges of other steps and jobs begin at different
  /// numbers but may overlap, so a process that connects must check that it
  /// reached its own step.
  std::vector<std::uint16_t> ports() const;
};

/// Expands a list of nodes from Slurm's environment variable `variable`:
/// "node[01-03,7],login" becomes "node01", "node02", "node03", "node7",
/// "login". Throws `ConfigError` if the list is malformed or has more than
/// 65536 nodes.
std::vector<std::string> expand_node_list(
    const char* variable, const std::string& list);

}  // namespace accelerate
