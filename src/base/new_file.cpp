// SPDX-License-Identifier: Apache-2.0
#include "base/new_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr std::size_t kRandomBytes = 3;  // Six characters of a name.
constexpr std::size_t kMaxCopied = std::size_t{1} << 30;
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

// Calls `create` with new names until it returns something other than EEXIST.
template <typename Create>
std::string create_with_new_name(
    const std::string& prefix, const Create& create) {
  int error = EEXIST;
  for (int attempt = 0; error == EEXIST && attempt < 100; ++attempt) {
    std::string path = prefix + to_hex(random_bytes(kRandomBytes));
    error = create(path) ? 0 : errno;
    if (error == 0) {
      return path;
    }
  }
  throw_errno("create", prefix, error);
}

}  // namespace

NewFile create_file(const std::string& prefix, const mode_t mode) {
  NewFile file;
  file.path = create_with_new_name(prefix, [&](const std::string& path) {
    file.fd.reset(::open(
        path.c_str(),
        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
        mode));
    return static_cast<bool>(file.fd);
  });
  return file;
}

std::string create_folder(const std::string& prefix, const mode_t mode) {
  return create_with_new_name(prefix, [&](const std::string& path) {
    return ::mkdir(path.c_str(), mode) == 0;
  });
}

void copy_to_new_file(
    const std::filesystem::path& from, const std::filesystem::path& to) {
  const UniqueFd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source) {
    throw_errno("read", from, errno);
  }
  const UniqueFd copy(
      ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!copy) {
    throw_errno("create", to, errno);
  }
  while (true) {
    const ssize_t copied =
        ::sendfile(copy.get(), source.get(), nullptr, kMaxCopied);
    if (copied == 0) {
      return;
    }
    if (copied < 0 && errno != EINTR) {
      throw_errno("write", to, errno);
    }
  }
}

void make_private_folder(
    const std::filesystem::path& path, const std::string& variable) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    throw_errno("create", path.parent_path(), error.value());
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_errno("create", path, errno);
  }
  const UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  const bool is_safe = fd && ::fstat(fd.get(), &status) == 0 &&
                       status.st_uid == ::geteuid() &&
                       (status.st_mode & kOthersMayWrite) == 0;
  if (!is_safe ||
      ((status.st_mode & kOthers) != 0 && ::fchmod(fd.get(), 0700) != 0)) {
    throw IoError(
        str_cat(
            path.string(), " is not a folder that only this user can access"),
        str_cat(
            "remove ",
            path.string(),
            ", or set ",
            variable,
            " to a folder of your own"));
  }
}

}  // namespace accelerate
