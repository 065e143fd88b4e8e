// SPDX-License-Identifier: Apache-2.0
// Writes the values of a run as a table for spreadsheets and data frames.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tracking/append_file.h"
#include "tracking/file_tracker.h"

namespace accelerate {

/// Writes `metrics.csv`: a row per call to `log`, a column per key. The first
/// columns are `_step` and `_time` (seconds since 1970). The configuration is
/// in `config.json`. If a key is new, the file is rewritten with another column
/// in the header. A row may be shorter than the header; its missing cells are
/// empty.
class CsvTracker : public FileTracker {
 public:
  static constexpr char kName[] = "csv";
  static constexpr char kFile[] = "metrics.csv";
  static constexpr char kConfigFile[] = "config.json";

  std::string name() const override { return kName; }
  void log(const TrackedValues& values) override;
  void flush() override { file_.flush(); }
  void finish() override { file_.flush(); }

 protected:
  void open(
      const std::filesystem::path& folder, std::int64_t keep_until_us) override;
  void write_config(const Json& config) override;
  void discard() override;

 private:
  /// Adds columns for new keys.
  void add_columns(const std::vector<TrackedEntry>& entries);
  void rewrite_header();
  std::string header() const;

  AppendFile file_;
  bool file_existed_ = false;
  std::size_t header_bytes_ = 0;
  std::vector<std::string> columns_;
  std::map<std::string, std::size_t> column_of_;
};

/// Reads the next row of CSV text and removes it from `rest`. If `rest` has no
/// complete row, returns false and changes nothing.
bool read_csv_row(
    std::string_view& rest,
    std::vector<std::string>& cells,
    char separator = ',');

}  // namespace accelerate
