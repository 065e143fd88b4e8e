// SPDX-License-Identifier: Apache-2.0
// Names of folders, changed in one step and there for good.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace accelerate {

/// Whether there is something of that name. A link counts, wherever it points
/// to.
bool is_there(const std::filesystem::path& path);

/// The folders in one; links to some are none.
std::vector<std::filesystem::path> folders_in(
    const std::filesystem::path& parent, std::error_code& error);

/// The `rename_` functions return 0 or what went wrong: `errno` would not
/// outlive the next call. With flags as for `renameat2`.
int rename_with(
    const std::filesystem::path& from,
    const std::filesystem::path& to,
    unsigned flags);
int rename_plainly(
    const std::filesystem::path& from, const std::filesystem::path& to);
/// Replaces nothing, unless on a file system without flags an empty folder
/// appears in this moment. See `is_taken`.
int rename_to_free_name(
    const std::filesystem::path& from, const std::filesystem::path& to);

/// Whether an error means that the file system knows no flags for renaming.
bool is_unknown(int error);
/// Whether an error means that the name is somebody else's.
bool is_taken(int error);

/// Brings the names in a folder to the disk. Throws `IoError`.
void sync_folder(const std::filesystem::path& folder);

}  // namespace accelerate
