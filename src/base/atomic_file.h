// SPDX-License-Identifier: Apache-2.0
// Writes files atomically: other processes never see a partly written file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/new_file.h"

namespace accelerate {

/// Writes to a temporary file next to `path`; `commit` syncs it to disk and
/// renames it to `path`. If `commit` was not called or failed, the destructor
/// removes the temporary file.
class AtomicFile {
 public:
  /// Creates missing folders. The umask applies to `mode`. The constructor,
  /// `write` and `commit` throw `IoError` on failure.
  explicit AtomicFile(std::filesystem::path path, mode_t mode = 0666);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  void commit();

 private:
  std::filesystem::path path_;
  NewFile temporary_;
};

}  // namespace accelerate
