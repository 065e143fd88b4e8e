// SPDX-License-Identifier: Apache-2.0
// How many processes `notebook_launcher` starts, and where.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"

namespace accelerate {

struct NotebookProcesses {
  int count = 1;
  bool cpu = true;
  /// What was chosen and why; empty when it is what the caller asked for.
  std::string notice;
};

/// The GPUs of this host that `CUDA_VISIBLE_DEVICES` leaves, counted without
/// starting CUDA, which a process that forks must not.
int count_gpus(
    const Environment& environment,
    const std::filesystem::path& devices = "/dev");

/// `asked`, or one for each GPU, or one for every four CPUs up to eight. More
/// processes than GPUs run on the CPU.
NotebookProcesses choose_processes(
    std::optional<int> asked, int gpus, int cpus);

}  // namespace accelerate
