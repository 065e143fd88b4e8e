// SPDX-License-Identifier: Apache-2.0
// Folders that writers leave next to checkpoints when they die or cannot clean
// up.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate {

/// Returns whether a folder with this name is an unfinished checkpoint or a
/// checkpoint that is being removed. False for a replaced checkpoint (see
/// `replaced_path`), which may be the only complete checkpoint left.
bool is_temporary_name(const std::string& name);

/// Returns the path to which `checkpoint` is renamed while a new checkpoint
/// replaces it on a file system that cannot exchange two folders:
/// `<path>.old-<checksum of the manifest>`. The checksum ensures that no other
/// folder is mistaken for a replaced checkpoint. Throws `IoError` if the
/// checkpoint has no manifest.
std::filesystem::path replaced_path(const std::filesystem::path& checkpoint);

/// The result of removing leftover folders.
struct CleanupResult {
  /// The names of the removed folders.
  std::vector<std::string> removed;
  /// Messages about folders that could not be removed or renamed. These folders
  /// do no harm.
  std::vector<std::string> problems;
};

/// Returns the folders in `parent` that `remove_abandoned` may remove:
/// unfinished checkpoints, including those of live writers, and checkpoints
/// that are being removed.
std::vector<std::filesystem::path> temporary_folders(
    const std::filesystem::path& parent);

/// Removes the folders that dead writers left in `parent`, and their locks. A
/// folder without a lock file next to it was written by version 0.1.0. Such a
/// folder is removed if the file `.lock` in it is not locked or, if there is no
/// such file, 10 minutes after the last change. A replaced checkpoint is
/// removed if the new checkpoint is complete. If the new checkpoint does not
/// exist and no writer is active in `parent`, the replaced checkpoint gets its
/// original name back. If there are several such replaced checkpoints, all of
/// them stay.
CleanupResult remove_abandoned(const std::filesystem::path& parent);

/// Removes the older checkpoints that `checkpoint` has replaced. The caller
/// must ensure that `checkpoint` is complete.
CleanupResult remove_replaced(const std::filesystem::path& checkpoint);

/// Removes a folder. Renames the folder first, so that a crash halfway leaves
/// only a folder that `remove_abandoned` removes later. If `folder` is a
/// symbolic link, only the link is removed. Throws `IoError`.
void remove_folder(const std::filesystem::path& folder);

}  // namespace accelerate
