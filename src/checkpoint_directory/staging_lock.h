// SPDX-License-Identifier: Apache-2.0
// Shows which staging folders still have a writer.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace accelerate {

/// Part of the name of each unfinished checkpoint and of each checkpoint that
/// is being removed.
inline constexpr const char* kTemporaryInfix = ".tmp-";
/// The lock file of the folder `checkpoint.tmp-<nonce>` is next to the folder
/// and has this suffix.
inline constexpr const char* kLockSuffix = ".lock";

/// What is known about the writer of a staging folder.
struct WriterEvidence {
  /// A process holds the lock.
  bool lock_is_held = false;
  /// `lock_is_held` is reliable, because the file is on a disk of this machine,
  /// or because the writer ran under the same Linux kernel as this process.
  bool lock_is_reliable = false;
  /// Time since anything in the folder, or the lock file, was written.
  std::chrono::seconds idle{0};
};

/// Returns whether the writer must be dead. In a shared folder, the locks of
/// other machines may be invisible. A free lock from another machine is
/// therefore proof only if nothing has been written for a day.
bool is_proof_of_death(const WriterEvidence& evidence);

/// The lock of a staging folder: a file that is created and locked before the
/// folder is created, and removed after the folder is renamed or removed. The
/// file identifies the Linux kernel on which the writer runs. The system
/// releases the lock of a process that dies.
class StagingLock {
 public:
  /// Chooses the name of a new folder in `parent` and locks it. Does not create
  /// the folder. Throws `IoError`.
  static StagingLock create(const std::filesystem::path& parent);
  /// Takes and returns the lock of a folder whose writer is dead. Returns
  /// nothing if the writer may be alive, or if another process has the lock or
  /// removed the lock file.
  static std::optional<StagingLock> take_over(
      const std::filesystem::path& folder);

  StagingLock(StagingLock&&) = default;
  StagingLock& operator=(StagingLock&&) = delete;
  /// Removes the lock file, unless the folder still exists.
  ~StagingLock();

  const std::filesystem::path& folder() const { return folder_; }

 private:
  StagingLock(std::filesystem::path folder, UniqueFd fd);

  std::filesystem::path folder_;
  UniqueFd fd_;
};

/// Returns the path of the lock file of a staging folder.
std::filesystem::path lock_path(const std::filesystem::path& folder);

}  // namespace accelerate
