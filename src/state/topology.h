// SPDX-License-Identifier: Apache-2.0
// Where this process stands among those of its run, read off the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/environment.h"

namespace accelerate {

/// Who started this process.
enum class Launcher { none, torchrun, openmpi, mpich, mvapich, slurm };

const char* name_of(Launcher launcher);

/// A process and the others of its run.
struct Topology {
  Launcher launcher = Launcher::none;
  int process_index = 0;
  int num_processes = 1;
  int local_process_index = 0;
  int local_num_processes = 1;
  int node_index = 0;
  int num_nodes = 1;
  /// Where the processes meet, if the environment says so.
  std::optional<std::string> main_address;
  std::optional<int> main_port;
  /// The launcher itself hosts the store there; all processes are clients.
  bool launcher_hosts_store = false;
  /// The store of `accelerate launch`, if it started this process.
  std::optional<std::string> launcher_store;
  std::string launcher_store_secret;
  /// How often the launcher has started this run before.
  int restart_count = 0;
  /// For files that processes of one host meet in: TMPDIR or /tmp.
  std::string scratch_folder = "/tmp";
};

/// Reads the variables of torchrun, Open MPI, MPICH, MVAPICH or Slurm, in this
/// order; none of them means one process.
///
/// Throws `ConfigError` that names variable and value when they are half set
/// or contradict each other.
Topology detect_topology(const Environment& environment);

/// First host of a Slurm node list: `node[07-09,12],login` → `node07`.
std::string first_host(const std::string& node_list);

}  // namespace accelerate
