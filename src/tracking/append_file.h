// SPDX-License-Identifier: Apache-2.0
// A log file that never contains half an entry.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace accelerate {

/// Appends entries to a file. What `flush` has written survives the death of
/// the process. If writing fails, for example on a full disk, the entries that
/// were written completely stay, and the rest is removed.
class AppendFile {
 public:
  AppendFile() = default;
  /// Opens a file for appending. Creates the file and its folders if they are
  /// missing. Throws `IoError`.
  explicit AppendFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// The size without the buffer.
  std::uint64_t size() const { return size_; }

  /// Adds a complete entry to the buffer. Writes the buffer if it is large.
  void append(std::string_view entry);
  /// Writes the buffer. Throws `IoError` if some of its entries are lost.
  void flush();
  /// Removes everything from offset `size` on, and the buffer.
  void truncate(std::uint64_t size);

 private:
  /// Undoes a write of `written` bytes that failed, except complete entries.
  void keep_complete_entries(std::size_t written);

  std::filesystem::path path_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
  std::string buffer_;
  std::vector<std::size_t> entry_ends_;  // In the buffer.
};

/// Closes the file after removing everything from offset `size` on; removes
/// the file if nothing is left.
void remove_from(AppendFile& file, std::uint64_t size);

}  // namespace accelerate
