// SPDX-License-Identifier: Apache-2.0
// Writes the values of a run as an offline run of Weights & Biases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tracking/append_file.h"
#include "tracking/file_tracker.h"
#include "tracking/wandb_options.h"
#include "tracking/wandb_records.h"

namespace accelerate {

/// Writes the folder `<dir>/wandb/offline-run-<time>-<id>`, which `wandb sync`
/// uploads. `<dir>` is option `dir`, or `WANDB_DIR`, or the logging folder, or
/// the current folder. W&B 0.31 has the same format. If `WANDB_MODE` is
/// `disabled`, writes nothing.
///
/// If a run has been uploaded, it is continued in a new folder with the same
/// id. The new folder has only the steps that the uploaded folder lacks: `wandb
/// sync` cannot replace steps, and would add a second copy of each.
///
/// W&B expects one row per step, so values that are logged for the step of the
/// last row are added to that row, and the row in the file is replaced.
class WandbTracker : public FileTracker {
 public:
  static constexpr char kName[] = "wandb";

  std::string name() const override { return kName; }
  bool requires_logging_directory() const override { return false; }
  void start(const TrackerSetup& setup) override;
  void store_init_configuration(const Json& config) override;
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void log_table(const TrackedTable& table) override;
  void flush() override;
  void finish() override;
  void resume(const Json& state, std::int64_t time_us) override;

 protected:
  void open(
      const std::filesystem::path& folder, std::int64_t keep_until_us) override;
  void write_config(const Json& config) override;
  void discard() override;
  std::vector<std::string> more_kwargs() const override {
    return wandb_kwargs();
  }
  std::string first_run() const override;
  std::filesystem::path folder_of(const std::string& run) const override;
  std::string continued_run(const std::string& saved) override;

 private:
  /// Writes the records at the beginning of a file.
  void begin_file();
  /// Returns whether values for this step are ignored: the tracker is disabled,
  /// or the uploaded file has the step.
  bool skips(std::int64_t step) const;
  /// Returns the row of this step, which becomes the last row of the file.
  WandbRow& row_of(std::int64_t step, std::int64_t time_us);
  /// Writes `row_` to the file's buffer, unless the row was already written and
  /// has not changed since.
  void write_row();
  /// Removes `row_` from the file, if it was written there.
  void take_row_back();
  void write_records(const std::vector<std::string>& records);
  /// Returns how many seconds the run has run, not counting the time between
  /// its end and its continuation.
  double runtime_at(std::int64_t time_us);
  /// Tells the user once where the run is.
  void announce();

  WandbOptions options_;
  AppendFile file_;
  std::int64_t records_ = 0;  // In the file and its buffer.
  std::int64_t started_us_ = 0;
  std::int64_t runtime_us_ = 0;  // Of the last row that the file had.
  std::optional<std::int64_t> first_step_;
  /// The end of the uploaded file, if this run continues it in a new file.
  std::optional<WandbPosition> uploaded_;
  std::optional<WandbRow> row_;
  bool row_changed_ = false;
  bool row_written_ = false;
  std::uint64_t row_begin_ = 0;
  std::int64_t row_records_ = 0;  // In front of the row.
  bool announced_ = false;
};

}  // namespace accelerate
