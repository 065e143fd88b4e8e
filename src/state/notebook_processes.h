// SPDX-License-Identifier: Apache-2.0
// How many processes `notebook_launcher` starts, and on which device.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"

namespace accelerate {

struct NotebookProcesses {
  int count = 1;
  bool cpu = true;
  /// Text that explains the choice to the user. Empty if the caller requested
  /// the number of processes, unless there are some GPUs, but too few.
  std::string notice;
};

/// Returns the number of GPUs that `CUDA_VISIBLE_DEVICES` exposes. Does not
/// initialize CUDA, because the process forks later.
int count_gpus(
    const Environment& environment,
    const std::filesystem::path& devices = "/dev");

/// Chooses the number of processes and their device. The number is `requested`
/// if set; otherwise one process per GPU or, if there is no GPU, one process
/// per four CPUs (at least one, at most eight). If there are more processes
/// than GPUs, all processes run on the CPU.
NotebookProcesses choose_processes(
    std::optional<int> requested, int gpus, int cpus);

}  // namespace accelerate
