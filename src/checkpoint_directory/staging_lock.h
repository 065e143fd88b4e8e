// SPDX-License-Identifier: Apache-2.0
// Shows which staging folders still have a writer.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace accelerate {

/// Part of the names of folders that are not yet, or no longer, a checkpoint.
inline constexpr const char* kTemporaryInfix = ".tmp-";
/// The lock of `checkpoint.tmp-<nonce>` is the file next to it with this
/// suffix.
inline constexpr const char* kLockSuffix = ".lock";

/// What is known about the writer of a staging folder.
struct WriterEvidence {
  /// A process holds the lock.
  bool lock_is_held = false;
  /// This kernel reliably knows who holds the lock: the file is on a disk of
  /// this machine, or the writer ran under this kernel.
  bool lock_is_reliable = false;
  /// Time since anything in the folder, or the lock file, was written.
  std::chrono::seconds idle{0};
};

/// Whether the writer cannot be alive. On a shared folder, locks may be
/// invisible to other machines; a free lock that was created on another machine
/// is proof only when nothing has been written for a day.
bool is_proof_of_death(const WriterEvidence& evidence);

/// The lock of a staging folder: a file that exists and is locked from before
/// the folder is created until after the folder has its final name or is gone.
/// The file names the kernel of the writer. The system releases the lock of a
/// process that dies.
class StagingLock {
 public:
  /// Chooses the name of a new folder in `parent` and locks it. Does not create
  /// the folder. Throws `IoError`.
  static StagingLock create(const std::filesystem::path& parent);
  /// Takes the lock of a folder whose writer is dead; empty if the writer may
  /// be alive, or if another process has the lock or removed the file.
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

/// The path of the lock file of a staging folder.
std::filesystem::path lock_path(const std::filesystem::path& folder);

}  // namespace accelerate
