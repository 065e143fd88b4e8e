// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/renames.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "base/files.h"
#include "base/unique_fd.h"

namespace accelerate {

namespace fs = std::filesystem;

bool path_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

std::vector<fs::path> subdirectories_of(
    const fs::path& parent, std::error_code& error) {
  std::vector<fs::path> found;
  fs::directory_iterator entry(parent, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (entry->symlink_status(unknown).type() == fs::file_type::directory) {
      found.push_back(entry->path());
    }
  }
  return found;
}

int rename_with_flags(
    const fs::path& from, const fs::path& to, const unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0
             ? 0
             : errno;
}

int rename_path(const fs::path& from, const fs::path& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int rename_no_replace(const fs::path& from, const fs::path& to) {
  const int error = rename_with_flags(from, to, RENAME_NOREPLACE);
  if (!is_unsupported_error(error)) {
    return error;
  }
  return path_exists(to) ? EEXIST : rename_path(from, to);
}

bool is_unsupported_error(const int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP;
}

bool is_name_taken_error(const int error) {
  // A plain rename onto a file fails with ENOTDIR.
  return error == EEXIST || error == ENOTEMPTY || error == ENOTDIR;
}

void sync_directory(const fs::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems do not support fsync on folders and return EINVAL.
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL)) {
    throw_errno("write", folder, errno);
  }
}

}  // namespace accelerate
