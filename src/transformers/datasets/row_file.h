// SPDX-License-Identifier: Apache-2.0
// Memory-mapped files of rows, written by `Dataset::map`.
//
// The file consists of: `accrows1` (8 bytes); the rows; the offset of each row
// and of the end of the last row, 8 bytes each; the columns as JSON; the length
// of that JSON and the number of rows, 8 bytes each; `accrows1` again. A row is
// a sequence of values, each a byte for the kind followed by the value. Numbers
// are little-endian; the lengths inside a row have 4 bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "transformers/datasets/table.h"

namespace transformers::datasets {

/// Appends a value, encoded as in a row file, to `bytes`.
void append_value(std::string& bytes, const Value& value);

/// Writes rows to a temporary file, which `finish` renames or deletes.
class RowFileWriter {
 public:
  /// Throws `IoError` when `folder` is not writable.
  explicit RowFileWriter(const std::filesystem::path& folder);
  RowFileWriter(const RowFileWriter&) = delete;
  RowFileWriter& operator=(const RowFileWriter&) = delete;
  ~RowFileWriter();

  /// Appends rows. `bytes` contains the encoded rows; `sizes` are the lengths
  /// of the rows in bytes.
  void append(const std::string& bytes, const std::vector<std::size_t>& sizes);

  /// Writes the end of the file, renames the file to `name`, replacing any
  /// existing file, and returns the rows as a table. If `name` has no value,
  /// deletes the file instead; the table can still read its rows.
  TablePointer finish(
      const std::vector<Column>& columns,
      const std::optional<std::filesystem::path>& name);

 private:
  void write(const std::string& bytes);

  std::filesystem::path temporary_;
  accelerate::UniqueFd fd_;
  std::vector<std::uint64_t> offsets_;
};

/// Opens a file of rows. Throws `FormatError` with the path and the byte offset
/// for a file that is damaged or has a different format.
TablePointer open_row_file(const std::filesystem::path& path);

}  // namespace transformers::datasets
