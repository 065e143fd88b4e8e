// SPDX-License-Identifier: Apache-2.0
// Options for naming, saving and loading checkpoints; see
// `Accelerator::save_state`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace accelerate {

/// Exit code of a program that saved a checkpoint on request (see
/// `Accelerator::checkpoint_requested`) and should be restarted later. If a
/// process exits with this code, `accelerate launch` waits for the other
/// processes, restarts no process and exits with the same code.
inline constexpr int kPreemptedExitCode = 75;

/// The folders and the naming scheme for a run's checkpoints and logs.
struct ProjectConfiguration {
  std::filesystem::path project_dir = {};
  /// The folder for logs of the program and its trackers. Default:
  /// `project_dir`.
  std::filesystem::path logging_dir = {};
  /// Whether `save_state` saves to
  /// `<project_dir>/checkpoints/checkpoint_<iteration>`.
  bool automatic_checkpoint_naming = false;
  /// Number of complete checkpoints to keep. Older checkpoints are removed once
  /// a new checkpoint is complete. Needs `automatic_checkpoint_naming`.
  std::optional<std::int64_t> total_limit = std::nullopt;
  /// The number of the next checkpoint. If a checkpoint with this number or a
  /// higher number exists, the highest existing number plus one is used.
  std::int64_t iteration = 0;
  /// Whether every node writes its own checkpoint; for nodes without a shared
  /// disk.
  bool save_on_each_node = false;
};

struct SaveStateOptions {
  /// If false, `save_state` copies the state and returns; the copy is written
  /// in the background while training continues. The next save waits until the
  /// copy is written. A write error is thrown by the next call that saves or
  /// loads a checkpoint, by `wait_for_checkpoint` or by `end_training`.
  bool blocking = true;
};

struct LoadStateOptions {
  /// If false, state that exists only in the checkpoint or only in this run is
  /// skipped and listed in the report. Weights whose data type differs between
  /// the checkpoint and this run are converted and listed.
  bool strict = true;
  /// If false and nothing has been saved yet, `load_state` without a folder
  /// changes nothing and returns a report without a path. Set this to false in
  /// jobs that a batch system restarts, because the first run of such a job has
  /// nothing to load.
  bool required = true;
};

/// The result of `load_state`.
struct LoadStateReport {
  /// The folder that was loaded; empty if nothing was loaded (see
  /// `LoadStateOptions::required`).
  std::filesystem::path path;
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  /// Number of processes that saved the checkpoint.
  int world_size = 1;
  /// State that did not fit and was skipped, and weights that were converted to
  /// another data type. Empty unless `strict` is false.
  std::vector<std::string> left_out;
  /// State that this run needs but the saved run did not have, such as the
  /// random state of an additional process. Such state is derived from the
  /// saved state, the same way each time. States passed to
  /// `Accelerator::register_random_state` stay unchanged instead.
  std::vector<std::string> derived;
  /// Checkpoints that are newer than the loaded checkpoint but were skipped,
  /// each with the reason.
  std::vector<std::string> passed_over;
};

/// How often `Accelerator::save_every` saves. Set `steps`, `minutes` or both.
struct SaveEveryOptions {
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<double> minutes = std::nullopt;
  bool blocking = false;
};

}  // namespace accelerate
