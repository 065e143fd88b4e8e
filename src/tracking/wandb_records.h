// SPDX-License-Identifier: Apache-2.0
// The records in a file of Weights & Biases, `run-<id>.wandb`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/json.h"
#include "tracking/protobuf.h"
#include "tracking/wandb_options.h"

namespace accelerate {

/// Returns the bytes with which each file begins, before the first record.
std::string wandb_file_header();

/// Returns the encoded protobuf message `Record` with the record number
/// `number`. `kind` is the field of `Record` that holds `content`.
std::string wandb_record(
    std::int64_t number, int kind, std::string_view content);

// Field numbers of `Record`.
inline constexpr int kWandbHistory = 2;
inline constexpr int kWandbSummary = 3;
inline constexpr int kWandbConfig = 5;
inline constexpr int kWandbFiles = 6;
inline constexpr int kWandbRun = 17;
inline constexpr int kWandbExit = 18;
inline constexpr int kWandbHeader = 21;

std::string wandb_header_content();
/// `first_step` is set only if an uploaded file has the steps before
/// `first_step`.
std::string wandb_run_content(
    const WandbOptions& options,
    std::int64_t start_us,
    const std::optional<std::int64_t>& first_step);
std::string wandb_config_content(const Json& config);
std::string wandb_exit_content(std::int64_t runtime_seconds);

/// The values of one step, which are one row of W&B's history.
struct WandbRow {
  std::int64_t step = 0;
  /// The encoded items, by key.
  std::map<std::string, std::string> items;
  /// Paths of files that belong to the row, relative to the folder `files`.
  std::vector<std::string> files;

  /// Sets the value of a key. Members of an object become nested keys.
  void set(const std::string& key, const Json& value);
  /// Returns the encoded items of all keys, concatenated.
  std::string encoded() const;
  /// Returns the records of this row; the first has the number `first_number`.
  std::vector<std::string> records(std::int64_t first_number) const;
};

/// The part of a file that a resumed run keeps.
struct WandbPosition {
  /// The length of this part in bytes; 0 if the file has no header.
  std::size_t end = 0;
  /// The number of records before `end`.
  std::int64_t records = 0;
  /// How many seconds the run had run at the last row.
  double runtime = 0;
  /// The first step that this file may have, if another file has the steps
  /// before it.
  std::optional<std::int64_t> first_step;
  /// The largest step, if there is one.
  std::optional<std::int64_t> last_step;
  /// The last value of each key, encoded.
  std::map<std::string, std::string> summary;
  /// The last row, where it begins, and how many records come before it.
  std::optional<WandbRow> row;
  std::size_t row_begin = 0;
  std::int64_t row_records = 0;
};

/// Returns the position after the last row that is not newer than
/// `keep_until_us`. Neither the record of the run's end nor anything after an
/// incomplete record is kept.
WandbPosition wandb_position(std::string_view file, std::int64_t keep_until_us);

}  // namespace accelerate
