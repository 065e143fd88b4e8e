// SPDX-License-Identifier: Apache-2.0
// The trackers of one Accelerator.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/log_values.h"
#include "accelerate/partial_state.h"
#include "accelerate/tracker.h"
#include "tracking/tracker_set.h"

namespace accelerate {

struct AcceleratorOptions;

/// Starts the trackers that the options name, and turns tensors into values
/// that trackers understand.
class RunTrackers {
 public:
  /// `state` must outlive this object. Throws `ArgumentError` for unknown
  /// names, and if a tracker writes files but `logging_dir` is empty.
  RunTrackers(
      const PartialState& state,
      const AcceleratorOptions& options,
      std::filesystem::path logging_dir);

  void init(
      const std::string& project, const Json& config, const Json& init_kwargs);
  void log(const LogValues& values, const LogValuesOptions& options);
  void log_images(const LogValues& values, const LogImagesOptions& options);
  void log_table(TrackedTable table, const LogValuesOptions& options);
  std::shared_ptr<GeneralTracker> get(const std::string& name) const;
  void finish();

  /// Returns the state for a checkpoint (see `TrackerSet::state_dict`); null
  /// without trackers.
  Json state_dict() const;
  void load_state_dict(const Json& state);

 private:
  /// Returns whether this process has trackers. Throws `StateError` if the
  /// options name trackers but they are not running. `caller` is the name of
  /// the calling function, for the error.
  bool check_started(const char* caller) const;

  const PartialState& state_;
  std::filesystem::path logging_dir_;
  /// The trackers of the run, including those that this process does not start.
  std::vector<LogWith> log_with_;
  std::vector<std::string> names_;
  std::optional<TrackerSet> trackers_;
  std::optional<Json> loaded_;
};

}  // namespace accelerate
