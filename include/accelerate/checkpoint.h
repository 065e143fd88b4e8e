// SPDX-License-Identifier: Apache-2.0
// How checkpoints are named, saved and loaded; see `Accelerator::save_state`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace accelerate {

/// What a program ends with that saved because it was asked to (see
/// `Accelerator::checkpoint_requested`) and wants to be started again.
/// `accelerate launch` takes it for that: it waits for the other processes,
/// restarts nothing and ends with the same code.
inline constexpr int kPreemptedExitCode = 75;

/// Where a run keeps its files.
struct ProjectConfiguration {
  std::filesystem::path project_dir = {};
  /// Where a program and its trackers write their logs; left out it is
  /// `project_dir`.
  std::filesystem::path logging_dir = {};
  /// Names checkpoints `<project_dir>/checkpoints/checkpoint_<iteration>`.
  bool automatic_checkpoint_naming = false;
  /// So many complete checkpoints are kept; older ones go once a new one is
  /// complete. Needs automatic naming.
  std::optional<std::int64_t> total_limit = std::nullopt;
  /// The number of the next checkpoint, or of a later one: it is always above
  /// those that are there.
  std::int64_t iteration = 0;
  /// Every node writes a checkpoint of its own, for nodes without a common
  /// disk.
  bool save_on_each_node = false;
};

struct SaveStateOptions {
  /// False: the state is copied and written while training goes on. The next
  /// save waits for it; what goes wrong is thrown by the next call about
  /// checkpoints, `wait_for_checkpoint` or `end_training`.
  bool blocking = true;
};

struct LoadStateOptions {
  /// False: what the checkpoint has and this run has not, and the reverse, is
  /// left out and listed in the report. Weights of another type are listed and
  /// converted.
  bool strict = true;
};

/// What `load_state` did.
struct LoadStateReport {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  /// How many processes had saved it.
  int world_size = 1;
  /// What did not fit; only with `strict = false`.
  std::vector<std::string> left_out;
  /// What the saved run did not have and this one needs, such as the random
  /// state of a further process: made from what there was, the same each time.
  std::vector<std::string> derived;
  /// Newer checkpoints that were passed over, with the reason.
  std::vector<std::string> passed_over;
};

/// When `Accelerator::save_every` saves; one of the two or both.
struct SaveEveryOptions {
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<double> minutes = std::nullopt;
  bool blocking = false;
};

}  // namespace accelerate
