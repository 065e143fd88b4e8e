// SPDX-License-Identifier: Apache-2.0
// The log format of LevelDB, as W&B uses it: records in blocks of 32 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate {

/// Returns the bytes to append to a file of `file_size` bytes to add `record`.
/// A record that crosses the end of a block is divided into chunks; each chunk
/// has a checksum, its length and its place in the record. W&B uses plain
/// CRC-32 checksums, whereas LevelDB uses masked CRC-32C.
std::string framed_log_record(std::string_view record, std::uint64_t file_size);

/// Reads the records of a file.
class LogRecordReader {
 public:
  /// Starts at `position`, which is where a record begins.
  LogRecordReader(std::string_view file, std::size_t position)
      : file_(file), position_(position) {}

  /// Returns the next record. Returns nothing at the end of the file, and from
  /// the first incomplete or damaged record on.
  std::optional<std::string> next();
  /// Returns where the last returned record ends.
  std::size_t position() const { return position_; }

 private:
  struct Chunk;
  std::optional<Chunk> chunk_at(std::size_t position) const;

  std::string_view file_;
  std::size_t position_;
};

}  // namespace accelerate
