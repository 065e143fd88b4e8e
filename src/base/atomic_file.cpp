// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

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
  temporary_ = path_.string() + ".XXXXXX";
  fd_ = UniqueFd(::mkostemp(temporary_.data(), O_CLOEXEC));
  if (!fd_) {
    const int reason = errno;
    temporary_.clear();
    throw_errno("write", path_, reason);
  }
  if (::fchmod(fd_.get(), mode) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    throw_errno("write", path_, reason);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      throw_errno("write", path_, errno);
    }
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0 ||
      ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw_errno("write", path_, errno);
  }
  temporary_.clear();
  sync_folder(folder_of(path_));
}

}  // namespace accelerate
