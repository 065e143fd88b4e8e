// SPDX-License-Identifier: Apache-2.0
// A checkpoint folder that gets its final name only when it is complete.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint_directory/leftovers.h"
#include "checkpoint_directory/manifest.h"
#include "checkpoint_directory/staging_lock.h"

namespace accelerate {

/// What `commit` does when the name is already in use.
enum class IfExists {
  /// Throws `StateError`.
  refuse,
  /// Replaces a checkpoint or an empty folder, atomically if the file system
  /// can exchange two folders. Throws `StateError` if anything else has the
  /// name.
  replace,
};

/// A folder `checkpoint.tmp-<nonce>` into which a checkpoint is written.
/// `commit` writes the manifest and renames the folder. Without `commit`, the
/// destructor removes the folder.
///
/// One process creates this object; other processes may write into `path()`
/// before `commit`. A `StagingLock` lets other processes detect that the writer
/// is still alive.
class StagedDirectory {
 public:
  /// Creates the folder in `parent`, and `parent` too if it is missing. Throws
  /// `IoError`.
  explicit StagedDirectory(const std::filesystem::path& parent);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();

  const std::filesystem::path& path() const { return path_; }

  /// Commits the checkpoint as `name` and returns its final path. Throws
  /// `IoError`, and `StateError` if the name is in use and `existing` does not
  /// allow it to be replaced. After a `StateError`, `commit` may be called
  /// again with another name. After an error, the name is free or still refers
  /// to the previous checkpoint.
  ///
  /// If the replaced checkpoint cannot be removed, only prints a warning to
  /// stderr, because the new checkpoint is already safe.
  std::filesystem::path commit(
      const Manifest& manifest, const std::string& name, IfExists existing);

 private:
  void complete(const Manifest& manifest);
  // `give_name` and both `replace` functions return the new path of the folder
  // that had the name before. The path is empty if no folder had the name.
  std::filesystem::path give_name(
      const std::filesystem::path& final, IfExists existing);
  std::filesystem::path replace(const std::filesystem::path& final);
  std::filesystem::path replace_in_two_steps(
      const std::filesystem::path& final);
  void take_name_back(
      const std::filesystem::path& final, const std::filesystem::path& old);

  std::filesystem::path parent_;
  std::filesystem::path path_;
  std::optional<StagingLock> lock_;
  bool has_manifest_ = false;
};

}  // namespace accelerate
