// SPDX-License-Identifier: Apache-2.0
// The formats of the files that DVC reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "accelerate/json.h"
#include "accelerate/tracker.h"

namespace accelerate {

/// Returns the path, below the folder of a kind of plot, of the file of a key:
/// a folder for each part of the key before the last `/`. Different keys have
/// different paths, of which none is the folder of another.
std::filesystem::path dvc_path(const std::string& key, const char* extension);

/// Returns the header of a metric's file.
std::string dvc_header(const std::string& key);

/// Returns a row of a metric's file. DVC reads the time as milliseconds;
/// it has decimals, because calls to `log` differ by microseconds.
std::string dvc_row(
    std::int64_t time_us, std::int64_t step, const TrackedValue& value);

/// Returns a value as it is in `metrics.json`.
Json dvc_summary_value(const TrackedValue& value);

/// Sets the value of a key in `summary`, where the parts of a key are nested.
/// If that is impossible because both `a` and `a/b` are keys, the second one
/// becomes a member as a whole.
void set_dvc_summary(Json& summary, const std::string& key, const Json& value);

/// The last row of a metric's file.
struct DvcHistory {
  std::int64_t time_us = 0;
  std::int64_t step = 0;
  Json value;  ///< Null if the file has no row.
};

/// Removes the rows that are newer than `keep_until_us` and the remains of a
/// row that was not completely written. Removes the file if no row is left.
DvcHistory cut_dvc_history(
    const std::filesystem::path& path, std::int64_t keep_until_us);

/// Returns a configuration as YAML.
std::string dvc_yaml(const Json& config);

}  // namespace accelerate
