// SPDX-License-Identifier: Apache-2.0
// The rank and node of this process in its run, read from environment
// variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/environment.h"
#include "config/slurm_step.h"

namespace accelerate {

/// The launcher that started this process.
enum class Launcher { none, torchrun, openmpi, mpich, mvapich, slurm };

const char* name_of(Launcher launcher);

/// The position of a process in its run.
struct Topology {
  Launcher launcher = Launcher::none;
  int process_index = 0;
  int num_processes = 1;
  int local_process_index = 0;
  int local_num_processes = 1;
  int node_index = 0;
  int num_nodes = 1;
  /// The rendezvous address and port, if the environment specifies them.
  std::optional<std::string> main_address;
  std::optional<int> main_port;
  /// The Slurm step, if `srun` started processes on several nodes and no
  /// address is set. The first process on the first node then listens on one of
  /// the step's ports.
  std::optional<SlurmStep> slurm_step;
  /// Whether the launcher itself serves the store, so that all processes are
  /// clients.
  bool launcher_serves_store = false;
  /// The address of the store in `accelerate launch`, if `accelerate launch`
  /// started this process.
  std::optional<std::string> launcher_store;
  std::string launcher_store_secret;
  std::string launcher_store_run;
  /// How many times the launcher has restarted this run.
  int restart_count = 0;
  /// The folder for rendezvous files of runs on one machine: TMPDIR if set,
  /// otherwise /tmp.
  std::string scratch_folder = "/tmp";
};

/// Looks for the variables of torchrun, Open MPI, MPICH, MVAPICH and Slurm, in
/// this order, and reads the variables of the first launcher found. MPI
/// variables with the same rank and size as Slurm's variables are ignored,
/// because `srun --mpi` sets both. If no launcher is found, the run has one
/// process.
///
/// Throws a `ConfigError` that names the variable and its value when the
/// variables are incomplete or contradict each other.
Topology detect_topology(const Environment& environment);

}  // namespace accelerate
