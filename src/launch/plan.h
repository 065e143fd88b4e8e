// SPDX-License-Identifier: Apache-2.0
// Plans a launch: converts settings to the command and environment of each
// worker. Does not start any process.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/socket.h"
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

  static JobShape of(const Settings& settings);
  /// Returns the shape of the same job for the machine with this rank.
  JobShape on_machine(std::int64_t rank) const;
};

/// Returns how long machines wait for each other: 60 s for `--rdzv_timeout 60`
/// or `--rdzv_conf timeout=60`. Throws `ConfigError` for other keys in
/// `--rdzv_conf`.
std::chrono::milliseconds rendezvous_timeout(const Settings& settings);

/// The address at which the machines of a job find machine 0.
struct MainAddress {
  std::string address;
  /// Machine 0 listens on the first of these ports that is free. There are
  /// several ports only in a Slurm step for which the user chose no port.
  std::vector<std::uint16_t> ports;
  /// Identifies the Slurm step. Machine 0 rejects machines from another step.
  /// Empty outside Slurm.
  std::string job;

  Endpoint endpoint(std::size_t index) const {
    return {false, address, ports.at(index)};
  }
  /// Returns the port that the program should open on machine 0: the launcher's
  /// port + 1, so that a firewall needs to open only a small range of ports.
  /// Returns 0, which means any free port, if the user did not choose the
  /// launcher's port.
  std::uint16_t program_port() const;
  /// Returns text such as "n1:29500" or "n1, ports 20112, 27310, …".
  std::string text() const;
};

/// Returns the address of machine 0. Throws `ConfigError` if the address is not
/// set.
MainAddress main_address(
    const Settings& settings, const Environment& environment);

/// The files of a launch on this machine.
struct LaunchFiles {
  std::string folder;      ///< Private to this launch.
  std::string log_folder;  ///< Empty if there are no log files.

  std::string store_socket() const;
  std::string error_file(std::int64_t rank) const;
  std::string progress_file(std::int64_t rank) const;
  /// Returns a glob pattern that matches the log files of a rank; empty without
  /// log files.
  std::string log_pattern(std::int64_t rank) const;
};

/// The program and the settings of a launch. A plan does not change while the
/// workers run. Values that a restart changes are in `Generation`.
struct LaunchPlan {
  Settings settings;  ///< Completed by `complete_settings`.
  Hardware hardware;
  Environment environment;
  /// The program with its arguments; a source file must already be compiled.
  std::vector<std::string> argv;
  bool is_python = false;
  std::string version;
  std::string torch_version;  ///< The LibTorch version of this installation.
  /// Marks this machine's processes. `run_session` sets `launch_id` and
  /// `files`.
  std::string launch_id;
  LaunchFiles files;
};

/// One launch of the workers: the values that may change with a restart.
struct Generation {
  std::int64_t number = 0;  ///< 0 for the first launch of the workers.
  JobShape shape;
  std::string run_id;  ///< Identifies the launch; the same on every machine.
  std::string store;
  std::string store_secret;
  std::string main_address = "127.0.0.1";
  std::string main_port;
  /// With several machines, the network interface through which this machine
  /// reaches the other machines.
  std::string network_interface;
};

/// Returns the commands for this machine's workers.
std::vector<WorkerCommand> make_worker_commands(
    const LaunchPlan& plan, const Generation& generation);

/// Returns the variables to add to the launcher's environment for a worker.
/// These variables override inherited variables with the same name.
std::map<std::string, std::string> worker_variables(
    const LaunchPlan& plan,
    const Generation& generation,
    std::int64_t local_rank);

/// Returns the GPUs for this machine's workers, in the order of local ranks.
/// `--gpu_ids` are indices into the GPUs that CUDA_VISIBLE_DEVICES exposes.
std::vector<Gpu> gpus_in_use(
    const Settings& settings, const Hardware& hardware);

/// Returns the CPUs for a worker: the CPUs near its GPU if they are known,
/// otherwise an equal share of all CPUs. Empty if there are fewer CPUs than
/// workers.
std::vector<int> cpus_of_worker(
    const Settings& settings,
    const Hardware& hardware,
    std::int64_t local_rank);

}  // namespace accelerate
