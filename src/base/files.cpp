// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/atomic_file.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"

namespace accelerate {
std::string errno_text(int error) {
  return std::generic_category().message(error);
}

void throw_errno(
    std::string_view action, const std::filesystem::path& path, int error) {
  throw IoError(
      str_cat("cannot ", action, " ", path.string(), ": ", errno_text(error)));
}

std::string read_file(
    const std::filesystem::path& path, std::size_t max_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    throw_errno("read", path, errno);
  }
  return read_descriptor(fd.get(), path, max_bytes);
}

std::string read_descriptor(
    const int fd, const std::filesystem::path& path, std::size_t max_bytes) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    throw_errno("read", path, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    throw_errno("read", path, EISDIR);
  }
  std::string content;
  // Reads past the limit to tell "exactly full" from "too large". The size from
  // `fstat` would be wrong for a pipe or a growing file.
  while (content.size() <= max_bytes) {
    char buffer[16384];
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw_errno("read", path, errno);
    }
    if (got == 0) {
      return content;
    }
    content.append(buffer, static_cast<std::size_t>(got));
  }
  throw IoError(str_cat(
      path.string(), " is larger than the ", max_bytes, " bytes allowed"));
}

void write_file(
    const std::filesystem::path& path, std::string_view content, mode_t mode) {
  AtomicFile file(path, mode);
  file.write(content);
  file.commit();
}

}  // namespace accelerate
