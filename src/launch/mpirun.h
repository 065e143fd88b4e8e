// SPDX-License-Identifier: Apache-2.0
// Processes started by `mpirun` instead of by us.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace accelerate {

enum class MpiFamily {
  open_mpi,
  mpich,  ///< And its relatives with the Hydra launcher: Intel MPI, MVAPICH.
};

/// Tells whose `mpirun` it is by what `mpirun --version` prints. Throws
/// `UnsupportedError` with its first line when it is neither.
MpiFamily mpi_family(const std::string& version_output);

struct MpirunOptions {
  MpiFamily family = MpiFamily::open_mpi;
  std::string mpirun = "mpirun";
  std::string hostfile;
  std::int64_t num_processes = 1;
  std::int64_t num_machines = 1;
  /// Variables that must reach every process.
  std::map<std::string, std::string> variables;
  std::vector<std::string> words;  ///< The program with its arguments.
};

/// The command line.
std::vector<std::string> mpirun_words(const MpirunOptions& options);

/// The first host of a hostfile: "node-a slots=2", "node-a:2". Empty when it
/// names none.
std::string first_mpi_host(const std::string& hostfile_text);

}  // namespace accelerate
