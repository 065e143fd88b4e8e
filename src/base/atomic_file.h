// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace accelerate {

/// Writes to a temporary file beside `path`; `commit` brings it to the disk
/// and renames it. Without `commit` nothing is left.
class AtomicFile {
 public:
  /// Creates missing folders. Throws `IoError`, as all of it does.
  explicit AtomicFile(std::filesystem::path path, mode_t mode = 0644);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  void commit();

 private:
  std::filesystem::path path_;
  std::string temporary_;
  UniqueFd fd_;
};

}  // namespace accelerate
