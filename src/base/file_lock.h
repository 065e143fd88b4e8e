// SPDX-License-Identifier: Apache-2.0
// A lock on a file, compatible with Python's `filelock`.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "base/unique_fd.h"

namespace accelerate {

/// Holds an exclusive `flock` on a file until this object is destroyed. Does
/// not remove the file. If the process dies, the system releases the lock.
class FileLock {
 public:
  /// Creates the file and its folders if they are missing. Calls `waiting` once
  /// if another process holds the lock. Throws `IoError` if another process
  /// still holds the lock after `timeout`, or if the file cannot be opened.
  FileLock(
      const std::filesystem::path& path,
      std::chrono::milliseconds timeout,
      const std::function<void()>& waiting = {});

 private:
  UniqueFd fd_;
};

}  // namespace accelerate
