// SPDX-License-Identifier: Apache-2.0
// Writes the values of a run as one JSON object per line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tracking/append_file.h"
#include "tracking/file_tracker.h"

namespace accelerate {

/// Writes `metrics.jsonl`. A line with values has a member for each key, and
/// the members `_step` and `_time` (seconds since 1970). All other lines have a
/// member `_type`: `run`, `config`, `images` or `table`. Numbers that are not
/// finite are written as `"NaN"`, `"Infinity"` and `"-Infinity"`.
class JsonLinesTracker : public FileTracker {
 public:
  static constexpr char kName[] = "jsonl";
  static constexpr char kFile[] = "metrics.jsonl";

  std::string name() const override { return kName; }
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void log_table(const TrackedTable& table) override;
  void flush() override { file_.flush(); }
  void finish() override { file_.flush(); }

 protected:
  void open(
      const std::filesystem::path& folder, std::int64_t keep_until_us) override;
  void write_config(const Json& config) override;
  void discard() override;

 private:
  void write(const Json& line);

  AppendFile file_;
  std::uint64_t size_before_ = 0;
};

}  // namespace accelerate
