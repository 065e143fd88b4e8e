// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;

// Does not follow a symbolic link: in a shared folder, a link from another user
// could make this process create a file elsewhere.
UniqueFd open_lock_file(const std::filesystem::path& path) {
  UniqueFd fd(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd) {
    throw_errno("open the lock", path, errno);
  }
  return fd;
}

/// Tries once; returns false when another process holds the lock.
bool try_lock(int fd, const std::filesystem::path& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    return true;
  }
  if (errno != EWOULDBLOCK && errno != EINTR) {
    throw_errno("lock", path, errno);
  }
  return false;
}

/// Returns whether the open file is still at `path`. If another process removed
/// the lock file, a lock on the old file protects nothing.
bool is_current(int fd, const std::filesystem::path& path) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

FileLock::FileLock(
    const std::filesystem::path& path,
    std::chrono::milliseconds timeout,
    const std::function<void()>& waiting) {
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) {
      throw_errno("create", path.parent_path(), error.value());
    }
  }
  const auto deadline = Clock::now() + timeout;
  auto pause = std::chrono::milliseconds(1);
  bool notified = false;
  while (true) {
    fd_ = open_lock_file(path);
    if (try_lock(fd_.get(), path) && is_current(fd_.get(), path)) {
      return;
    }
    if (Clock::now() >= deadline) {
      throw IoError(
          str_cat(
              "could not lock ",
              path.string(),
              " within ",
              format_seconds(std::chrono::duration<double>(timeout).count()),
              ": another process holds the lock"),
          "wait for that process or stop it; remove the lock file only if no "
          "process is using it");
    }
    if (!notified && waiting) {
      waiting();
    }
    notified = true;
    // `flock` has no timeout, so this loop tries up to ten times per second.
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(100));
  }
}

}  // namespace accelerate
