// SPDX-License-Identifier: Apache-2.0
// A log file to which only complete entries are added.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace accelerate {

/// Appends entries to a file. Entries that `flush` has written survive the
/// death of the process. If a write fails, for example on a full disk, only the
/// entries that were written completely stay in the file.
class AppendFile {
 public:
  AppendFile() = default;
  /// Opens a file for appending. Creates the file and its folders if they are
  /// missing. Throws `IoError` if that fails.
  explicit AppendFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// Returns the size of the file, without the entries in the buffer.
  std::uint64_t size() const { return size_; }
  /// Returns the size of the file with the entries in the buffer.
  std::uint64_t end() const { return size_ + buffer_.size(); }

  /// Adds a complete entry to the buffer. Writes the buffer if it is large.
  void append(std::string_view entry);
  /// Writes the buffer. Throws `IoError` if some of its entries are lost.
  void flush();
  /// Shortens the file to `size` bytes and discards the buffer.
  void truncate(std::uint64_t size);

 private:
  /// Cleans up after a failed write that added `written` bytes: removes the
  /// incomplete entry at the end of the file.
  void keep_complete_entries(std::size_t written);

  std::filesystem::path path_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
  std::string buffer_;
  std::vector<std::size_t> entry_ends_;  // Offsets in the buffer.
};

/// Shortens the file to `size` bytes and closes it. Removes the file if nothing
/// is left.
void remove_from(AppendFile& file, std::uint64_t size);

}  // namespace accelerate
