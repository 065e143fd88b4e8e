// SPDX-License-Identifier: Apache-2.0
// A new file whose checksum is known when it is written.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/unique_fd.h"
#include "folders/checksum.h"

namespace accelerate {

/// Writes a file that must not exist yet, inside a folder that is not visible
/// under its own name yet; so no temporary name is needed.
///
/// Throws `IoError` naming the path.
class SummedFile {
 public:
  explicit SummedFile(std::filesystem::path path);

  void write(std::string_view bytes);
  /// Brings the file to the disk and returns what the manifest says of it.
  FileSum finish();

 private:
  void flush_some();

  std::filesystem::path path_;
  UniqueFd fd_;
  Checksum checksum_;
  std::uint64_t bytes_ = 0;
  std::uint64_t flushed_ = 0;
};

/// Writes a whole small file that way.
FileSum write_summed(
    const std::filesystem::path& path, std::string_view content);

}  // namespace accelerate
