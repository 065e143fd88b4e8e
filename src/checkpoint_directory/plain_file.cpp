// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/plain_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate {

UniqueFd open_plain_file(const std::filesystem::path& path) {
  // Without O_NONBLOCK, `open` would block if the path is a named pipe.
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ELOOP) {
      throw IoError(
          str_cat(path.string(), " is a symbolic link, not a file"),
          "replace the link with the file");
    }
    throw_errno("read", path, errno);
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw IoError(str_cat(path.string(), " is not a regular file"));
  }
  return fd;
}

std::uint64_t size_of_file(const UniqueFd& fd) {
  struct stat status{};
  return ::fstat(fd.get(), &status) == 0
             ? static_cast<std::uint64_t>(status.st_size)
             : 0;
}

}  // namespace accelerate
