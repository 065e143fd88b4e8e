// SPDX-License-Identifier: Apache-2.0
// A file as memory, for reading once from front to back.
#pragma once

#include <filesystem>
#include <string_view>

namespace transformers::tokenizers {

class MappedFile {
 public:
  /// Throws `IoError` naming path and reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace transformers::tokenizers
