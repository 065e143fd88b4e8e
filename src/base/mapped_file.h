// SPDX-License-Identifier: Apache-2.0
// A file's content as memory, read by the kernel when it is looked at.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace accelerate {

/// Maps a whole file, privately: a write changes this process's copy of the
/// page and never the file. Moves, does not copy.
class MappedFile {
 public:
  /// Throws `IoError` naming path and reason, also for what is no plain file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace accelerate
