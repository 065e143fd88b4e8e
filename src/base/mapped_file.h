// SPDX-License-Identifier: Apache-2.0
// A memory-mapped file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/bus_error.h"

namespace accelerate {

/// Maps a whole file into memory. The file must not shrink while it is mapped:
/// an access to a missing part would end the program, with a message that names
/// the file (see `NamedMapping`). Move-only.
class MappedFile {
 public:
  enum class Mode {
    /// The mapping is writable: a write changes this process's copy of the
    /// page, never the file. The system reserves memory for the whole mapping.
    writable_copy,
    /// The mapping is read-only. It uses only the page cache, which the system
    /// can reclaim.
    read_only,
  };

  /// Throws an `IoError` that names the path and the reason if `path` cannot be
  /// mapped or is not a regular file.
  explicit MappedFile(
      const std::filesystem::path& path, Mode mode = Mode::writable_copy);
  /// Maps the open file `fd`, which need not have a name; error messages name
  /// `path`.
  MappedFile(int fd, const std::filesystem::path& path, Mode mode);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  void map(int fd, const std::filesystem::path& path, Mode mode);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  NamedMapping name_;
};

}  // namespace accelerate
