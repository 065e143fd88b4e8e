// SPDX-License-Identifier: Apache-2.0
// The rows that `Dataset::map` makes: in memory, or in a memory-mapped file.
//
// The file consists of: `accrows1` (8 bytes); the rows; the offset of each row
// and of the end of the last row, 8 bytes each; the columns as JSON; the length
// of that JSON and the number of rows, 8 bytes each; `accrows1` again. A row is
// a sequence of values, each a byte for the kind followed by the value. Numbers
// are little-endian; the lengths inside a row have 4 bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/available_memory.h"
#include "base/unique_fd.h"
#include "datasets/table.h"

namespace transformers::datasets {

/// Appends a value, encoded as in a row file, to `bytes`.
void append_value(std::string& bytes, const Value& value);

struct RowFileLimits {
  /// Rows of up to this size stay in memory.
  std::size_t memory_bytes = std::size_t{64} << 20;
  /// Returns how much memory is available, for rows that cannot be written.
  std::function<std::uint64_t()> available = accelerate::available_bytes;
};

/// Collects rows in memory, and in a file when there are too many. If the file
/// cannot be created, the rows stay in memory as long as there is any.
class RowFileWriter {
 public:
  /// If `name` has a value, `finish` writes the rows to a file of that name.
  /// Any other file is temporary.
  RowFileWriter(
      std::filesystem::path folder,
      std::optional<std::filesystem::path> name,
      RowFileLimits limits = {});
  RowFileWriter(const RowFileWriter&) = delete;
  RowFileWriter& operator=(const RowFileWriter&) = delete;
  ~RowFileWriter();

  /// Appends rows. `bytes` contains the encoded rows; `sizes` are the lengths
  /// of the rows in bytes. Throws `IoError` if a file cannot be written, and
  /// the rows do not fit in memory either.
  void append(const std::string& bytes, const std::vector<std::size_t>& sizes);

  /// Returns the rows as a table. A file of the same name is replaced.
  TablePointer finish(const std::vector<Column>& columns);

 private:
  void add(std::string_view bytes);
  void reserve_memory(std::size_t size);
  void move_to_file();
  void open_file();
  void write(std::string_view bytes);
  void remove_file();
  TablePointer table_in_file();

  std::filesystem::path folder_;
  std::optional<std::filesystem::path> name_;
  RowFileLimits limits_;
  std::string memory_;  // Empty after `move_to_file`.
  std::vector<std::uint64_t> offsets_;
  std::string temporary_;  // The file's name, if it has one.
  accelerate::UniqueFd fd_;
  std::string file_problem_;  // Why there is no file.
};

/// Opens a file of rows. Throws `FormatError` with the path and the byte offset
/// for a file that is damaged or has a different format.
TablePointer open_row_file(const std::filesystem::path& path);

}  // namespace transformers::datasets
