// SPDX-License-Identifier: Apache-2.0
// Turns settings into the command and environment of each worker. Starts no
// process.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/settings.h"
#include "launch/hardware.h"
#include "launch/worker_process.h"

namespace accelerate {

/// Fills in the settings that the user left out: the number of processes, the
/// devices, the number of threads and, under Slurm, the machines. Throws
/// `ConfigError` if the settings cannot work on this machine.
void complete_settings(
    Settings& settings,
    const Hardware& hardware,
    const Environment& environment);

/// Describes the completed settings in one line: "Found 2 × NVIDIA H200: 2
/// processes, 8 threads each".
std::string describe_choice(const Settings& settings, const Hardware& hardware);

/// The size of the job, and which of its ranks this machine runs.
struct JobShape {
  std::int64_t num_processes = 1;
  std::int64_t num_machines = 1;
  std::int64_t machine_rank = 0;
  std::int64_t local_processes = 1;
  std::int64_t first_rank = 0;
  bool use_cpu = true;

  static JobShape of(const Settings& settings);
};

/// How long machines wait for each other: 60 s for `--rdzv_timeout 60` or
/// `--rdzv_conf timeout=60`. Throws `ConfigError` for other keys in
/// `--rdzv_conf`.
std::chrono::milliseconds rendezvous_timeout(const Settings& settings);

/// Facts that are known only when the job starts.
struct RuntimeFacts {
  std::string main_address = "127.0.0.1";
  std::string main_port;
  std::string store;
  std::string store_secret;
  std::string launch_id;  ///< Identifies this machine's processes.
  std::string run_id;     ///< The same on every machine.
  /// With several machines, the network interface through which this machine
  /// reaches the other machines.
  std::string network_interface;
  std::string folder;  ///< This launch's folder for error and step files.
  std::int64_t restart_count = 0;
};

/// The commands for this machine's workers. `argv` is the program with its
/// arguments; a source file must already be compiled. `is_python` says whether
/// the program is a Python program.
std::vector<WorkerCommand> make_worker_commands(
    const Settings& settings,
    const Hardware& hardware,
    const Environment& environment,
    const RuntimeFacts& facts,
    const std::vector<std::string>& argv,
    bool is_python);

/// The variables to add to the launcher's environment for a worker. They
/// override variables of the same name.
std::map<std::string, std::string> worker_variables(
    const Settings& settings,
    const Hardware& hardware,
    const Environment& environment,
    const RuntimeFacts& facts,
    std::int64_t local_rank,
    bool is_python);

/// The GPUs for this machine's workers, in the order of local ranks.
/// `--gpu_ids` are indices into the GPUs that CUDA_VISIBLE_DEVICES exposes.
std::vector<Gpu> gpus_in_use(
    const Settings& settings, const Hardware& hardware);

/// The CPUs for a worker: the CPUs near its GPU if they are known, else an
/// equal share of all CPUs. Empty if there are fewer CPUs to share than
/// workers.
std::vector<int> cpus_of_worker(
    const Settings& settings,
    const Hardware& hardware,
    std::int64_t local_rank);

}  // namespace accelerate
