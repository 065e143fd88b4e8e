// SPDX-License-Identifier: Apache-2.0
// The formats of the files that DVC reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "accelerate/json.h"
#include "accelerate/tracker.h"

namespace accelerate {

/// Returns the path of a key's file, relative to `plots/metrics` or
/// `plots/images`. Each part of the key before the last `/` becomes a folder.
/// Different keys have different paths, and no path is a parent folder of
/// another path.
std::filesystem::path dvc_path(const std::string& key, const char* extension);

/// Returns the header of a metric's file.
std::string dvc_header(const std::string& key);

/// Returns a row of a metric's file. The time is in milliseconds, as DVC
/// expects, with decimals, because calls to `log` may be microseconds apart.
std::string dvc_row(
    std::int64_t time_us, std::int64_t step, const TrackedValue& value);

/// Returns a value as it is stored in `metrics.json`.
Json dvc_summary_value(const TrackedValue& value);

/// Sets the value of a key in `summary`, where the key `a/b` is the member `b`
/// of the member `a`. If that is impossible because both `a` and `a/b` are
/// keys, the key that is set second becomes a single member that is not nested.
void set_dvc_summary(Json& summary, const std::string& key, const Json& value);

/// The last row of a metric's file.
struct DvcHistory {
  std::int64_t time_us = 0;
  std::int64_t step = 0;
  Json value;  ///< Null if the file has no row.
};

/// Removes the rows that are newer than `keep_until_us` and the remains of a
/// row that was not completely written. Returns the last row that is left.
/// Removes the file if no row is left.
DvcHistory cut_dvc_history(
    const std::filesystem::path& path, std::int64_t keep_until_us);

/// Returns a configuration as YAML.
std::string dvc_yaml(const Json& config);

}  // namespace accelerate
