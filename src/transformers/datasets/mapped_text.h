// SPDX-License-Identifier: Apache-2.0
// A file as one piece of text, read by the system page by page.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace transformers::datasets {

/// A whole file mapped for reading. The file must not shrink meanwhile.
class MappedText {
 public:
  /// Throws `IoError` naming path and reason.
  explicit MappedText(const std::filesystem::path& path);
  /// Maps an open file, which may have no name; `path` is for errors.
  MappedText(int fd, const std::filesystem::path& path);
  MappedText(MappedText&& other) noexcept;
  MappedText& operator=(MappedText&& other) = delete;
  ~MappedText();

  std::string_view text() const { return {data_, size_}; }

 private:
  void map(int fd, const std::filesystem::path& path);

  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace transformers::datasets
