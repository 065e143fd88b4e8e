// SPDX-License-Identifier: Apache-2.0
// A lock that processes hold on a file, as Python's `filelock` takes it.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "base/unique_fd.h"

namespace accelerate {

/// Holds `flock` on a file until it goes; the file stays. The system lets go
/// of the lock of a process that dies.
class FileLock {
 public:
  /// Creates the file and its folders if need be. `waiting` is called once if
  /// another process holds the lock. Throws `IoError` when that lasts longer
  /// than `timeout`, or when the file cannot be opened.
  FileLock(
      const std::filesystem::path& path,
      std::chrono::milliseconds timeout,
      const std::function<void()>& waiting = {});

 private:
  UniqueFd fd_;
};

}  // namespace accelerate
