// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/leftovers.h"

#include <chrono>
#include <map>
#include <optional>
#include <regex>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/renames.h"
#include "checkpoint_directory/staged_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplaced = ".old-";
// Longer than creating a folder and its lock can take.
constexpr std::chrono::minutes kRecent(10);

// True when a process holds the lock of a folder, or may be about to take it.
bool is_in_use(const fs::path& folder) {
  const UniqueFd lock(::open(
      (folder / kLockFile).c_str(),
      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (lock) {
    return ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
  }
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - written < kRecent;
}

/// The checkpoint that replaced this one; empty for any other folder.
std::optional<fs::path> replaced_by(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const auto at = name.rfind(kReplaced);
  if (at == name.npos || at == 0) {
    return std::nullopt;
  }
  const fs::path checkpoint = folder.parent_path() / name.substr(0, at);
  try {
    const std::string sum = checksum_file(folder / kManifestFile).xxh3;
    return name.substr(at) == str_cat(kReplaced, sum)
               ? std::optional(checkpoint)
               : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_complete(const fs::path& checkpoint) {
  try {
    return verify_checkpoint(
               checkpoint, read_manifest(checkpoint), {.checksums = false})
        .empty();
  } catch (const Error&) {
    return false;
  }
}

void try_to_remove(const fs::path& folder, CleanupResult& result) {
  try {
    remove_folder(folder);
    result.removed.push_back(folder.filename().string());
  } catch (const Error& problem) {
    result.problems.emplace_back(problem.what());
  }
}

// A failure loses no data, so it is only reported.
void put_back(
    const fs::path& replaced,
    const fs::path& checkpoint,
    CleanupResult& result) {
  const int error = rename_no_replace(replaced, checkpoint);
  if (error != 0) {
    result.problems.push_back(
        str_cat("cannot rename ", replaced.string(), ": ", errno_text(error)));
  }
}

}  // namespace

// Matches exactly the names created here: a user's folder with a similar name
// must never be removed.
bool is_temporary_name(const std::string& name) {
  static const std::regex pattern(
      "checkpoint\\.tmp-[A-Za-z0-9]{6}|.+\\.tmp-removed-[0-9]+");
  return std::regex_match(name, pattern);
}

fs::path replaced_path(const fs::path& checkpoint) {
  return str_cat(
      checkpoint.string(),
      kReplaced,
      checksum_file(checkpoint / kManifestFile).xxh3);
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(folder, error)) {
    if (!fs::remove(folder, error) && error) {
      throw_errno("remove", folder, error.value());
    }
    return;
  }
  fs::path target = folder;
  if (!is_temporary_name(folder.filename().string())) {
    target = str_cat(folder.string(), kTemporaryInfix, "removed-", ::getpid());
    fs::rename(folder, target, error);
  }
  if (!error) {
    fs::remove(target / kManifestFile, error);
  }
  if (!error) {
    fs::remove_all(target, error);
  }
  if (error) {
    throw_errno("remove", folder, error.value());
  }
}

CleanupResult remove_abandoned(const fs::path& parent) {
  CleanupResult result;
  std::map<fs::path, std::vector<fs::path>> replaced;
  bool busy = false;
  std::error_code ignored;
  for (const fs::path& folder : subdirectories_of(parent, ignored)) {
    if (is_temporary_name(folder.filename().string())) {
      const bool alive = is_in_use(folder);
      busy = busy || alive;
      if (!alive) {
        try_to_remove(folder, result);
      }
    } else if (const auto checkpoint = replaced_by(folder)) {
      replaced[*checkpoint].push_back(folder);
    }
  }
  for (const auto& [checkpoint, olds] : replaced) {
    if (is_complete(checkpoint)) {
      for (const fs::path& old : olds) {
        try_to_remove(old, result);
      }
    } else if (!path_exists(checkpoint) && !busy && olds.size() == 1) {
      // A writer died between its two renames. If there are several, we cannot
      // tell which is the newest, so all of them stay.
      put_back(olds.front(), checkpoint, result);
    }
  }
  return result;
}

CleanupResult remove_replaced(const fs::path& checkpoint) {
  CleanupResult result;
  std::error_code ignored;
  for (const fs::path& folder :
       subdirectories_of(checkpoint.parent_path(), ignored)) {
    if (replaced_by(folder) == checkpoint) {
      try_to_remove(folder, result);
    }
  }
  return result;
}

}  // namespace accelerate
