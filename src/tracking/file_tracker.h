// SPDX-License-Identifier: Apache-2.0
// The base class of trackers that write files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tracker.h"

namespace accelerate {

/// A tracker whose files are in the folder of the run,
/// `<logging_dir>/<project>/<run>`. Option `name` is the name of the run.
///
/// NOTE [Resumed runs]
/// Each entry in a file has the time of its call to `log`; the times are in
/// ascending order. A checkpoint stores the time of the last call before it was
/// saved. `resume` removes newer entries, because the resumed run logs them
/// again. An entry that does not come from a call to `log`, such as the
/// configuration, has the time `opened_us`. That time is earlier than every
/// call to `log` after `start` or `resume`, even if the tracker's thread writes
/// the entry after the values of such a call.
class FileTracker : public GeneralTracker {
 public:
  bool requires_logging_directory() const override { return true; }
  void start(const TrackerSetup& setup) override;
  void store_init_configuration(const Json& config) override;
  Json state_dict() const override;
  void resume(const Json& state, std::int64_t time_us) override;

 protected:
  /// Opens or creates the files in `folder`. Removes entries that are newer
  /// than `keep_until_us` and the remains of an entry that was not completely
  /// written.
  virtual void open(
      const std::filesystem::path& folder, std::int64_t keep_until_us) = 0;
  virtual void write_config(const Json& config) = 0;
  /// Undoes `open` and `write_config`. Called only before anything is logged.
  virtual void discard() = 0;
  /// Returns the name of the run that `start` begins.
  virtual std::string first_run() const;
  /// Returns the folder of a run, or an empty path if a run cannot have this
  /// name.
  virtual std::filesystem::path folder_of(const std::string& run) const;
  /// Returns the name of the run that continues the run `saved`, whose folder
  /// exists. By default, this is the same run.
  virtual std::string continued_run(const std::string& saved);
  /// Returns the names of the options that this tracker accepts besides `name`.
  virtual std::vector<std::string> more_kwargs() const { return {}; }

  const TrackerSetup& setup() const { return setup_; }
  std::filesystem::path folder() const;
  /// Returns the time of entries that do not come from a call to `log`.
  std::int64_t opened_us() const { return opened_us_; }

 private:
  std::string run() const;

  TrackerSetup setup_;
  // Guards `run_`: the training thread may read it while `resume` changes it.
  mutable std::mutex mutex_;
  std::string run_;
  std::int64_t opened_us_ = 0;
  std::optional<Json> config_;
};

/// Writes the images as PNG files in `folder`. Returns the paths of the files,
/// relative to `folder`.
std::vector<std::string> write_image_files(
    const std::filesystem::path& folder,
    std::int64_t step,
    const TrackedImageEntry& entry);

}  // namespace accelerate
