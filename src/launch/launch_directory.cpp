// SPDX-License-Identifier: Apache-2.0
#include "launch/launch_directory.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/kernel_id.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "accelerate-";
constexpr const char* kLauncherLock = "launcher.lock";
constexpr std::size_t kMaxLockBytes = 256;

bool is_own_folder(const fs::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

// A lock file is locked before it gets its name, so a free lock proves that its
// launcher is dead. Other machines might not see the lock, so the folder must
// have been created under the running Linux kernel.
bool is_abandoned_launch(const fs::path& folder) {
  const fs::path path = folder / kLauncherLock;
  const UniqueFd lock(
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  try {
    return lock && is_own_folder(folder) &&
           ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 &&
           read_descriptor(lock.get(), path, kMaxLockBytes) == kernel_id();
  } catch (const Error&) {
    return false;
  }
}

void remove_abandoned_launches(const fs::path& base) {
  std::error_code error;
  fs::directory_iterator entry(base, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kPrefix) &&
        is_abandoned_launch(entry->path())) {
      std::error_code ignored;
      fs::remove_all(entry->path(), ignored);
    }
  }
}

}  // namespace

LaunchDirectory::LaunchDirectory(const Environment& environment) {
  const std::string base = environment.get("TMPDIR").value_or("/tmp");
  // A socket's path is at most 107 bytes long.
  path_ = base.size() < 80 ? base : "/tmp";
  remove_abandoned_launches(path_);
  path_ += str_cat("/", kPrefix, "XXXXXX");
  if (::mkdtemp(path_.data()) == nullptr) {
    throw_errno("create", path_, errno);
  }
  lock();
}

LaunchDirectory::~LaunchDirectory() {
  std::error_code error;
  fs::remove_all(path_, error);
}

// If the lock cannot be taken, the launch still runs, but its folder is left
// behind if the launcher and the guardian are killed.
void LaunchDirectory::lock() {
  const std::string unlocked = str_cat(path_, "/", kLauncherLock, "-");
  lock_.reset(
      ::open(unlocked.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string kernel = kernel_id();
  const auto size = static_cast<ssize_t>(kernel.size());
  if (!lock_ || kernel.empty() ||
      ::write(lock_.get(), kernel.data(), kernel.size()) != size ||
      ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(unlocked.c_str(), str_cat(path_, "/", kLauncherLock).c_str()) !=
          0) {
    ::unlink(unlocked.c_str());
  }
}

}  // namespace accelerate
