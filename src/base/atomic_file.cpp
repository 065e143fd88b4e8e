// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "base/files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The rename is durable only once the folder is synced.
void sync_folder(const fs::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems do not support fsync on folders and return EINVAL.
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL)) {
    throw_errno("write", folder, errno);
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, mode_t mode) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(folder_of(path_), error);
  if (error) {
    throw_errno("create", folder_of(path_), error.value());
  }
  temporary_ = create_file(path_.string() + ".", mode);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.path.empty()) {
    ::unlink(temporary_.path.c_str());
  }
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(temporary_.fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      throw_errno("write", path_, errno);
    }
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

void AtomicFile::commit() {
  if (::fsync(temporary_.fd.get()) != 0 ||
      ::rename(temporary_.path.c_str(), path_.c_str()) != 0) {
    throw_errno("write", path_, errno);
  }
  temporary_.path.clear();
  sync_folder(folder_of(path_));
}

}  // namespace accelerate
