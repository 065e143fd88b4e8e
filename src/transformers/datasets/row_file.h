// SPDX-License-Identifier: Apache-2.0
// Rows on disk: what `Dataset::map` writes and reads again, mapped.
//
// The file: 8 bytes `accrows1`; the rows; where each row begins and the last
// one ends, 8 bytes each; the columns as JSON; its length and the number of
// rows, 8 bytes each; `accrows1` again. A row is its values, each a byte for
// the kind and the value; numbers are little endian, lengths have 4 bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "transformers/datasets/table.h"

namespace transformers::datasets {

/// Appends the bytes of a value.
void append_value(std::string& bytes, const Value& value);

/// Writes rows to a file that has no name until `finish` gives it one.
class RowFileWriter {
 public:
  /// Throws `IoError` when nothing can be written in `folder`.
  explicit RowFileWriter(const std::filesystem::path& folder);
  RowFileWriter(const RowFileWriter&) = delete;
  RowFileWriter& operator=(const RowFileWriter&) = delete;
  ~RowFileWriter();

  /// Appends rows: their bytes, and the length of each.
  void append(const std::string& bytes, const std::vector<std::size_t>& sizes);

  /// Writes what stands at the end and returns the rows as a table; a file of
  /// that name is replaced. Without a name the file goes with the table.
  TablePointer finish(
      const std::vector<Column>& columns,
      const std::optional<std::filesystem::path>& name);

 private:
  void write(const std::string& bytes);

  std::filesystem::path temporary_;
  accelerate::UniqueFd fd_;
  std::vector<std::uint64_t> offsets_;
};

/// Opens rows that were written before. Throws `FormatError` with path and
/// byte offset for a file that is something else, or damaged.
TablePointer open_row_file(const std::filesystem::path& path);

}  // namespace transformers::datasets
