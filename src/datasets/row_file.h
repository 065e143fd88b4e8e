// SPDX-License-Identifier: Apache-2.0
// The rows that `Dataset::map` makes: in memory, or in a memory-mapped file.
//
// The file consists of: `accrows1` (8 bytes); the rows; the offset of each row
// and of the end of the last row, 8 bytes each; the columns as JSON; the length
// of that JSON and the number of rows, 8 bytes each; `accrows1` again. A row is
// a sequence of values, each a byte for the kind followed by the value. Numbers
// are little-endian; the lengths inside a row take 4 bytes.
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
  /// The rows stay in memory until their total size exceeds this limit.
  std::size_t memory_bytes = std::size_t{64} << 20;
  /// Returns the available memory in bytes. Called when the rows cannot be
  /// written to a file.
  std::function<std::uint64_t()> available = accelerate::available_bytes;
};

/// Collects rows in memory, and moves the rows to a file when their size
/// exceeds `RowFileLimits::memory_bytes`. If the file cannot be created, the
/// rows stay in memory as long as enough memory is available.
class RowFileWriter {
 public:
  /// If `name` has a value, `finish` writes the rows to a file with that name
  /// in `folder`. Without a name, the file is temporary.
  RowFileWriter(
      std::filesystem::path folder,
      std::optional<std::filesystem::path> name,
      RowFileLimits limits = {});
  RowFileWriter(const RowFileWriter&) = delete;
  RowFileWriter& operator=(const RowFileWriter&) = delete;
  ~RowFileWriter();

  /// Appends rows. `bytes` contains the encoded rows; `sizes` are the lengths
  /// of the rows in bytes. Throws `IoError` if the rows fit neither in a file
  /// nor in memory.
  void append(const std::string& bytes, const std::vector<std::size_t>& sizes);

  /// Returns the rows as a table. Replaces an existing file with the same name.
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
  std::string memory_;  // The rows; empty after `move_to_file`.
  std::vector<std::uint64_t> offsets_;
  std::string temporary_;  // The path of the temporary file, if it has a name.
  accelerate::UniqueFd fd_;
  std::string file_problem_;  // Why the file could not be created.
};

/// Opens a file of rows. Throws `FormatError` with the path and the byte offset
/// for a file that is damaged or has a different format.
TablePointer open_row_file(const std::filesystem::path& path);

}  // namespace transformers::datasets
