// SPDX-License-Identifier: Apache-2.0
#include "folders/staged_folder.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "folders/summed_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemporary = ".tmp-";
constexpr const char* kReplaced = ".old-";
constexpr const char* kLock = ".lock";
// Longer than making a folder and the lock in it can take.
constexpr std::chrono::minutes kYoung(10);

void sync_folder(const fs::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems know no fsync for folders and say EINVAL.
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL)) {
    throw_errno("write", folder, errno);
  }
}

// Creates missing folders; each is in its parent for good when this returns.
void create_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(folder).lexically_normal();
       !fs::exists(at) && at.has_relative_path();
       at = at.parent_path()) {
    missing.push_back(at);
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw_errno("create", folder, error.value());
  }
  for (const fs::path& made : missing) {
    sync_folder(made.parent_path());
  }
}

/// These return 0 or what went wrong; `errno` would not outlive the next call.
int rename_with(const fs::path& from, const fs::path& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0
             ? 0
             : errno;
}

int rename_plainly(const fs::path& from, const fs::path& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

bool is_unknown(const int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP;
}

// What a name that is taken says; the last one when it is a file's.
bool is_taken(const int error) {
  return error == EEXIST || error == ENOTEMPTY || error == ENOTDIR;
}

// A link counts, wherever it points to.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

[[noreturn]] void throw_taken(const fs::path& path) {
  throw StateError(
      str_cat(path.string(), " exists"),
      "save under another name, or remove it first");
}

// True when somebody holds the lock of a folder, or may be about to.
bool is_in_use(const fs::path& folder) {
  const UniqueFd lock(
      ::open((folder / kLock).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (lock) {
    return ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
  }
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - written < kYoung;
}

}  // namespace

StagedFolder::StagedFolder(const fs::path& parent) : parent_(parent) {
  create_folders(parent_);
  std::string path = (parent_ / str_cat("checkpoint", kTemporary)).string();
  path += "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    throw_errno("create", path, errno);
  }
  path_ = path;
  ::chmod(path.c_str(), 0755);
  // Under another name until it is locked: somebody who tidies up takes a lock
  // that nobody holds for that of a dead writer.
  const fs::path unlocked = path_ / str_cat(kLock, "-");
  lock_ = UniqueFd(
      ::open(unlocked.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(unlocked.c_str(), (path_ / kLock).c_str()) != 0) {
    const int reason = errno;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw_errno("create", path_, reason);
  }
}

StagedFolder::~StagedFolder() {
  if (!path_.empty()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
}

fs::path StagedFolder::commit(
    const Manifest& manifest,
    const std::string& name,
    const Existing existing) {
  const auto manifest_path = path_ / kManifestFile;
  if (has_manifest_) {
    fs::remove(manifest_path);
  }
  has_manifest_ = true;
  write_summed(manifest_path, manifest.to_json());
  ::unlink((path_ / kLock).c_str());
  sync_folder(path_);
  const fs::path final = parent_ / name;
  give_name(final, existing);
  path_.clear();
  sync_folder(parent_);
  return final;
}

void StagedFolder::give_name(const fs::path& final, const Existing existing) {
  int error = rename_with(path_, final, RENAME_NOREPLACE);
  if (is_unknown(error)) {
    // A file system that cannot promise it: a folder that appears between the
    // two calls is not replaced either, unless it is empty.
    error = is_there(final) ? EEXIST : rename_plainly(path_, final);
  }
  if (error == 0) {
    return;
  }
  if (!is_taken(error)) {
    throw_errno("write", final, error);
  }
  if (existing == Existing::refuse) {
    throw_taken(final);
  }
  if (!fs::is_empty(final) && !fs::exists(final / kManifestFile)) {
    throw StateError(
        str_cat(final.string(), " exists and is no checkpoint"),
        "save under another name; nothing there was touched");
  }
  const fs::path old = str_cat(
      final.string(),
      kReplaced,
      path_.string().substr(path_.string().size() - 6));
  error = rename_with(path_, final, RENAME_EXCHANGE);
  if (error == 0) {
    sync_folder(parent_);
    remove_folder(path_);
    return;
  }
  if (is_unknown(error)) {
    // Between these two the old one has its other name, which counts as
    // complete.
    error = rename_plainly(final, old);
    if (error == 0) {
      error = rename_plainly(path_, final);
    }
  }
  if (error != 0) {
    throw_errno("write", final, error);
  }
  sync_folder(parent_);
  remove_folder(old);
}

// Exactly the names that are given here: a user's folder that only looks
// similar must never be taken for ours and removed.
bool is_temporary_name(const std::string& name) {
  static const std::regex ours(
      "checkpoint\\.tmp-[A-Za-z0-9]{6}|.+\\.tmp-removed-[0-9]+");
  return std::regex_match(name, ours);
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(folder)) {
    if (!fs::remove(folder, error) && error) {
      throw_errno("remove", folder, error.value());
    }
    return;
  }
  fs::path doomed = folder;
  if (!is_temporary_name(folder.filename().string())) {
    doomed = str_cat(folder.string(), kTemporary, "removed-", ::getpid());
    fs::rename(folder, doomed, error);
  }
  if (!error) {
    fs::remove(doomed / kManifestFile, error);
  }
  if (!error) {
    fs::remove_all(doomed, error);
  }
  if (error) {
    throw_errno("remove", folder, error.value());
  }
}

Abandoned remove_abandoned(const fs::path& parent) {
  Abandoned found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !entry.is_symlink() &&
        is_temporary_name(name) && !is_in_use(entry.path())) {
      try {
        remove_folder(entry.path());
        found.removed.push_back(name);
      } catch (const IoError& problem) {
        found.problems.emplace_back(problem.what());
      }
    }
  }
  return found;
}

}  // namespace accelerate
