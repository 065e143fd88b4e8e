// SPDX-License-Identifier: Apache-2.0
// New files and folders, with the permissions that the umask allows.
#pragma once

#include <filesystem>
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace accelerate {

/// A file that `create_file` has created, open for reading and writing.
struct NewFile {
  UniqueFd fd;
  std::string path;
};

/// Creates a file whose name is `prefix` followed by random characters. The
/// system removes the bits of the process's umask from `mode`, as for every new
/// file; `mkstemp` and a later `chmod` would ignore the umask.
///
/// Throws an `IoError` that names `prefix` if this fails.
NewFile create_file(const std::string& prefix, mode_t mode = 0666);

/// Like `create_file`, for a folder; returns its path.
std::string create_folder(const std::string& prefix, mode_t mode = 0777);

/// Copies the content of a file to the new file `to`, but not its permissions.
/// Throws `IoError`.
void copy_to_new_file(
    const std::filesystem::path& from, const std::filesystem::path& to);

/// Creates the folder `path` and its missing parents, and ensures that only
/// this user can access the folder. Otherwise, another user could place files
/// there that this process would trust. If the folder exists, belongs to this
/// user and is readable by others, makes it private.
///
/// Throws `IoError` if `path` is a symbolic link, belongs to another user, or
/// was writable by others, or if its parent folder is writable by others and
/// has no sticky bit. The hint names `variable`, the environment variable that
/// selects another folder.
void make_private_folder(
    const std::filesystem::path& path, const std::string& variable);

}  // namespace accelerate
