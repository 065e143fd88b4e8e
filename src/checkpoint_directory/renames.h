// SPDX-License-Identifier: Apache-2.0
// Atomic and durable renames of folders.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace accelerate {

/// Returns whether anything exists at `path`. A symbolic link counts even if
/// its target does not exist.
bool path_exists(const std::filesystem::path& path);

/// Lists the subfolders of `parent`, but not symbolic links to folders. Sets
/// `error` if `parent` cannot be read.
std::vector<std::filesystem::path> subdirectories_of(
    const std::filesystem::path& parent, std::error_code& error);

/// Renames `from` to `to`. `flags` are the flags of `renameat2`. Like all
/// `rename_` functions, returns 0 or the error code, because later calls may
/// overwrite `errno`.
int rename_with_flags(
    const std::filesystem::path& from,
    const std::filesystem::path& to,
    unsigned flags);
/// Like `rename_with_flags`, but without flags.
int rename_path(
    const std::filesystem::path& from, const std::filesystem::path& to);
/// Like `rename_path`, but fails if `to` exists; `is_name_taken_error`
/// recognizes this error. On a file system without rename flags, an empty
/// folder that another process creates at `to` during the call is replaced.
int rename_no_replace(
    const std::filesystem::path& from, const std::filesystem::path& to);

/// Returns whether an error code means that the file system does not support
/// rename flags.
bool is_unsupported_error(int error);
/// Returns whether an error code means that the new name is already in use.
bool is_name_taken_error(int error);

/// Syncs the names of the files in a folder to the disk, so that renames
/// survive a crash. Throws `IoError`.
void sync_directory(const std::filesystem::path& folder);

}  // namespace accelerate
