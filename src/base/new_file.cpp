// SPDX-License-Identifier: Apache-2.0
#include "base/new_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

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

// Creates a folder and its missing parents, as the XDG Base Directory
// Specification asks: only this user can access them.
void create_private_folders(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) {
    return;
  }
  const fs::path parent = path.parent_path();
  if (errno != ENOENT || parent.empty() || parent == path) {
    throw_errno("create", path, errno);
  }
  create_private_folders(parent);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_errno("create", path, errno);
  }
}

// Whether users other than this one can rename the entries of a folder. In a
// folder with the sticky bit, only the owner of an entry can. A group with the
// same number as the folder's owner is the owner's private group, which has no
// other members.
bool can_be_changed_by_others(const struct stat& folder) {
  const bool by_group =
      (folder.st_mode & S_IWGRP) != 0 && folder.st_gid != folder.st_uid;
  const bool by_all = (folder.st_mode & S_IWOTH) != 0;
  return (by_group || by_all) && (folder.st_mode & S_ISVTX) == 0;
}

void check_parent(const fs::path& path, const std::string& variable) {
  const fs::path parent =
      path.has_parent_path() ? path.parent_path() : fs::path(".");
  struct stat status{};
  if (::stat(parent.c_str(), &status) != 0) {
    throw_errno("check", parent, errno);
  }
  if (can_be_changed_by_others(status)) {
    throw IoError(
        str_cat(
            "other users can replace ",
            path.string(),
            ", because they can write to ",
            parent.string()),
        str_cat(
            "run `chmod +t ",
            parent.string(),
            "`, or set ",
            variable,
            " to a folder of your own"));
  }
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

void copy_to_new_file(const fs::path& from, const fs::path& to) {
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

void make_private_folder(const fs::path& path, const std::string& variable) {
  create_private_folders(path);
  check_parent(path, variable);
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
