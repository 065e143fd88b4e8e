// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/staging_lock.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/kernel_id.h"
#include "base/str_cat.h"
#include "checkpoint_directory/local_disk.h"
#include "checkpoint_directory/renames.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kIdle(24);
constexpr std::size_t kMaxBytes = 256;

enum class Attempt { locked, held, unsupported };

Attempt try_lock(const UniqueFd& fd) {
  int result = 0;
  do {
    result = ::flock(fd.get(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    return Attempt::locked;
  }
  return errno == EWOULDBLOCK ? Attempt::held : Attempt::unsupported;
}

// Another process may have removed the file before this process locked it.
bool has_name(const UniqueFd& fd) {
  struct stat status{};
  return ::fstat(fd.get(), &status) == 0 && status.st_nlink > 0;
}

bool was_written_under_this_kernel(const UniqueFd& fd, const fs::path& path) {
  try {
    const std::string writer = read_descriptor(fd.get(), path, kMaxBytes);
    return !writer.empty() && writer == kernel_id();
  } catch (const Error&) {
    return false;
  }
}

std::chrono::seconds idle_time(const fs::path& folder, const fs::path& lock) {
  std::error_code error;
  auto newest = fs::last_write_time(lock, error);
  const auto look_at = [&](const fs::path& path) {
    std::error_code unknown;
    const auto written = fs::last_write_time(path, unknown);
    if (!unknown) {
      newest = std::max(newest, written);
    }
  };
  look_at(folder);
  for (fs::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end;
       entry.increment(error)) {
    look_at(entry->path());
  }
  return std::chrono::duration_cast<std::chrono::seconds>(
      fs::file_time_type::clock::now() - newest);
}

}  // namespace

bool is_proof_of_death(const WriterEvidence& evidence) {
  return !evidence.lock_is_held &&
         (evidence.lock_is_reliable || evidence.idle >= kIdle);
}

fs::path lock_path(const fs::path& folder) {
  return str_cat(folder.string(), kLockSuffix);
}

StagingLock::StagingLock(fs::path folder, UniqueFd fd)
    : folder_(std::move(folder)), fd_(std::move(fd)) {
}

StagingLock::~StagingLock() {
  if (fd_ && !path_exists(folder_)) {
    ::unlink(lock_path(folder_).c_str());
  }
}

StagingLock StagingLock::create(const fs::path& parent) {
  while (true) {
    const fs::path folder =
        parent /
        str_cat("checkpoint", kTemporaryInfix, to_hex(random_bytes(3)));
    const fs::path path = lock_path(folder);
    UniqueFd fd(::open(
        path.c_str(),
        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
        0666));
    if (!fd) {
      if (errno == EEXIST) {
        continue;
      }
      throw_errno("create", path, errno);
    }
    // A save is possible even on a file system without locks. If its writer
    // dies, the folder is removed when nothing has been written for a day.
    const bool is_ours = try_lock(fd) != Attempt::held && has_name(fd);
    if (!is_ours || path_exists(folder)) {
      continue;  // A process that removes leftovers has locked the file first.
    }
    StagingLock lock(folder, std::move(fd));
    const std::string kernel = kernel_id();
    const auto size = static_cast<ssize_t>(kernel.size());
    if (::write(lock.fd_.get(), kernel.data(), kernel.size()) != size) {
      throw_errno("write", path, errno);
    }
    return lock;
  }
}

std::optional<StagingLock> StagingLock::take_over(const fs::path& folder) {
  const fs::path path = lock_path(folder);
  // An exclusive lock on NFS needs write access.
  UniqueFd fd(
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    return std::nullopt;
  }
  const Attempt attempt = try_lock(fd);
  const bool works = attempt == Attempt::locked;
  const WriterEvidence evidence{
      .lock_is_held = attempt == Attempt::held,
      .lock_is_reliable = works && (is_on_local_disk(folder.parent_path()) ||
                                    was_written_under_this_kernel(fd, path)),
      .idle = idle_time(folder, path)};
  if (!is_proof_of_death(evidence) || !has_name(fd)) {
    return std::nullopt;
  }
  return StagingLock(folder, std::move(fd));
}

}  // namespace accelerate
