// SPDX-License-Identifier: Apache-2.0
// From settings to what each worker gets. No process is started here.
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

/// Fills in what nobody said: processes, devices, threads, and under Slurm the
/// machines. Throws `ConfigError` for what cannot work on this machine.
void complete_settings(
    Settings& settings,
    const Hardware& hardware,
    const Environment& environment);

/// The same in one line: "Found 2 × NVIDIA H200: 2 processes, no mixed
/// precision".
std::string describe_choice(const Settings& settings, const Hardware& hardware);

/// Which ranks of the job this machine runs.
struct JobShape {
  std::int64_t num_processes = 1;
  std::int64_t num_machines = 1;
  std::int64_t machine_rank = 0;
  std::int64_t local_processes = 1;
  std::int64_t first_rank = 0;
  bool use_cpu = true;

  static JobShape of(const Settings& settings);
};

/// How long machines wait for each other: `--rdzv_timeout 60`, which
/// `--rdzv_conf timeout=60` also says. Throws `ConfigError` on other pairs.
std::chrono::milliseconds meeting_timeout(const Settings& settings);

/// What is known only when the job starts.
struct RuntimeFacts {
  std::string main_address = "127.0.0.1";
  std::string main_port;
  std::string store;
  std::string store_secret;
  std::string launch_id;  ///< Marks the processes of this machine.
  std::string run_id;     ///< The same on every machine.
  /// Through which this machine reaches machine 0, with several.
  std::string network_interface;
  std::string folder;  ///< Of this launch: error files, steps.
  std::int64_t restart_count = 0;
};

/// The commands of this machine's workers. `words` is the program with its
/// arguments, ready to run; `is_python` says whose rules it follows.
std::vector<WorkerCommand> make_worker_commands(
    const Settings& settings,
    const Hardware& hardware,
    const Environment& environment,
    const RuntimeFacts& facts,
    const std::vector<std::string>& words,
    bool is_python);

/// The variables a worker gets beyond, or instead of, those of the launcher.
std::map<std::string, std::string> worker_variables(
    const Settings& settings,
    const Hardware& hardware,
    const Environment& environment,
    const RuntimeFacts& facts,
    std::int64_t local_rank,
    bool is_python);

/// The GPUs this machine's workers use, in the order of their local ranks:
/// those of `--gpu_ids`, which counts the ones CUDA_VISIBLE_DEVICES leaves.
std::vector<Gpu> gpus_in_use(
    const Settings& settings, const Hardware& hardware);

/// The CPUs of one of several workers: near its GPU, or its share of all.
std::vector<int> cpus_of_worker(
    const Settings& settings,
    const Hardware& hardware,
    std::int64_t local_rank);

}  // namespace accelerate
