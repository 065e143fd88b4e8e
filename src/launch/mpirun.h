// SPDX-License-Identifier: Apache-2.0
// Starts the processes with `mpirun`.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace accelerate {

enum class MpiFamily {
  open_mpi,
  mpich,  ///< MPICH, Intel MPI and MVAPICH, which use the Hydra launcher.
};

/// Detects the MPI family from the output of `mpirun --version`. Throws
/// `UnsupportedError` with the first line of the output for any other family.
MpiFamily mpi_family(const std::string& version_output);

struct MpirunOptions {
  MpiFamily family = MpiFamily::open_mpi;
  std::string mpirun = "mpirun";
  std::string hostfile;
  std::int64_t num_processes = 1;
  std::int64_t num_machines = 1;
  /// Environment variables that every process must get.
  std::map<std::string, std::string> variables;
  std::vector<std::string> program_argv;
};

/// Returns the `mpirun` command line that starts the program.
std::vector<std::string> mpirun_argv(const MpirunOptions& options);

/// Returns the first node in a hostfile: "node-a" for "node-a slots=2" or
/// "node-a:2". Empty if the hostfile lists no nodes.
std::string first_hostfile_node(const std::string& hostfile_text);

}  // namespace accelerate
