// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"

namespace accelerate {
namespace {

void write_all(
    int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno != EINTR) {
      throw_errno("write", path, errno);
    }
    if (written > 0) {
      content.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

}  // namespace

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
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    throw_errno("read", path, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    throw_errno("read", path, EISDIR);
  }
  std::string content;
  // One byte more than allowed tells "exactly full" from "too large", and a
  // pipe or a growing file cannot slip past the size that was asked first.
  while (content.size() <= max_bytes) {
    char buffer[16384];
    const ssize_t got = ::read(fd.get(), buffer, sizeof(buffer));
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
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) {
      throw_errno("create", path.parent_path(), error.value());
    }
  }
  std::string temporary = path.string() + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) {
    throw_errno("write", path, errno);
  }
  try {
    if (::fchmod(fd.get(), mode) != 0) {
      throw_errno("write", path, errno);
    }
    write_all(fd.get(), content, path);
    if (::fsync(fd.get()) != 0 ||
        ::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_errno("write", path, errno);
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace accelerate
