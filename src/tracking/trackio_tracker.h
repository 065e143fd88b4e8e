// SPDX-License-Identifier: Apache-2.0
// Writes the values of a run into Trackio's database.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tracker.h"
#include "config/environment.h"
#include "tracking/sqlite.h"

namespace accelerate {

/// Writes the SQLite database of the project in TRACKIO_DIR, which `trackio
/// show` displays: a row per call to `log`, with numbers, texts, histograms,
/// tables and the configuration. Images are PNG files next to the database.
/// Options `name` and `group` are the names of the run and of its group of
/// runs.
///
/// The database is private to Trackio; this class was written for version 0.43.
/// The database is open only while values are written, under Trackio's lock, so
/// that Trackio may use the same project at the same time.
class TrackioTracker : public GeneralTracker {
 public:
  static constexpr char kName[] = "trackio";

  /// While another program has locked the database, waits for up to `timeout`.
  explicit TrackioTracker(
      Environment environment = Environment::of_this_process(),
      std::chrono::milliseconds timeout = std::chrono::seconds(10));

  std::string name() const override { return kName; }
  void start(const TrackerSetup& setup) override;
  void store_init_configuration(const Json& config) override;
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void log_table(const TrackedTable& table) override;
  void flush() override;
  void finish() override;
  Json state_dict() const override;
  void resume(const Json& state, std::int64_t time_us) override;

 private:
  struct Run {
    std::string id;
    std::string name;
  };
  struct Row {
    std::int64_t step;
    std::int64_t time_us;
    std::string metrics;
  };

  Run run() const;
  std::filesystem::path file(const char* extension) const;
  void add_row(std::int64_t step, std::int64_t time_us, const Json& metrics);
  Json image_entry(std::int64_t step, const EncodedImage& image);
  /// Deletes the rows that were logged after the checkpoint, and writes `rows`
  /// and the configuration, in one transaction.
  void write(const std::vector<Row>& rows);
  void insert(SqliteDatabase& database, const std::vector<Row>& rows);
  void warn_if_newer(bool newer);
  /// Deletes the rows that were logged after the checkpoint, and returns their
  /// metrics.
  std::vector<std::string> delete_later_rows(SqliteDatabase& database);
  void write_config(SqliteDatabase& database);

  Environment environment_;
  std::chrono::milliseconds timeout_;
  std::filesystem::path folder_;
  std::string project_;  // As Trackio names its files.
  std::string group_;
  std::string journal_;
  std::vector<Row> rows_;
  Json config_ = Json::object();
  bool config_written_ = false;
  bool warned_ = false;
  std::optional<std::int64_t> delete_after_us_;

  // Guards `run_`: the training thread may read it while `resume` changes it.
  mutable std::mutex mutex_;
  Run run_;
};

}  // namespace accelerate
