// SPDX-License-Identifier: Apache-2.0
#include "folders/renames.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "base/files.h"
#include "base/unique_fd.h"

namespace accelerate {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

std::vector<fs::path> folders_in(
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

int rename_with(
    const fs::path& from, const fs::path& to, const unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0
             ? 0
             : errno;
}

int rename_plainly(const fs::path& from, const fs::path& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int rename_to_free_name(const fs::path& from, const fs::path& to) {
  const int error = rename_with(from, to, RENAME_NOREPLACE);
  if (!is_unknown(error)) {
    return error;
  }
  return is_there(to) ? EEXIST : rename_plainly(from, to);
}

bool is_unknown(const int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP;
}

bool is_taken(const int error) {
  // The last one is what a plain rename says where there is a file.
  return error == EEXIST || error == ENOTEMPTY || error == ENOTDIR;
}

void sync_folder(const fs::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems know no fsync for folders and say EINVAL.
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL)) {
    throw_errno("write", folder, errno);
  }
}

}  // namespace accelerate
