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
  /// Explains the choice to the user. If the caller requested a number of
  /// processes, this text is empty unless there are GPUs, but fewer than
  /// requested.
  std::string notice;
};

/// Returns the number of GPUs that `CUDA_VISIBLE_DEVICES` exposes, or 0 if
/// `ACCELERATE_USE_CPU` is true. Counts the GPUs' device files in `devices` and
/// does not initialize CUDA, because the process forks later.
int count_gpus(
    const Environment& environment,
    const std::filesystem::path& devices = "/dev");

/// Chooses the number of processes and their device. If `requested` is set, it
/// is the number of processes. If not, there is one process per GPU or, on a
/// machine without GPUs, one process per four logical CPUs (at least one, at
/// most eight). If there are more processes than GPUs, all processes run on the
/// CPU.
NotebookProcesses choose_processes(
    std::optional<int> requested, int gpus, int cpus);

}  // namespace accelerate
