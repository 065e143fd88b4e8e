// SPDX-License-Identifier: Apache-2.0
// A file's content as memory, read by the kernel when it is looked at.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace accelerate {

/// Maps a whole file, which must not shrink meanwhile. Moves, does not copy.
class MappedFile {
 public:
  enum class Mode {
    /// A write changes this process's copy of the page and never the file.
    /// The system promises memory for all of it.
    writable_copy,
    /// Costs no memory that the system could not take back.
    read_only,
  };

  /// Throws `IoError` naming path and reason, also for what is no plain file.
  explicit MappedFile(
      const std::filesystem::path& path, Mode mode = Mode::writable_copy);
  /// Maps an open file, which may have no name; `path` is for errors.
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
};

}  // namespace accelerate
