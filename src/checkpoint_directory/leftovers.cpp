// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/leftovers.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/renames.h"
#include "checkpoint_directory/staging_lock.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplaced = ".old-";
constexpr const char* kRemoved = "removed-";
// Version 0.1.0 locked this file in the folder and removed it before it renamed
// the folder, which takes less than `kRecent`.
constexpr const char* kOldLock = ".lock";
constexpr std::chrono::minutes kRecent(10);

// Names of folders that are being removed. Any process may complete the
// removal.
bool is_removed_name(const std::string& name) {
  static const std::regex pattern(".+\\.tmp-removed-([0-9]+|[0-9a-f]{8})");
  return std::regex_match(name, pattern);
}

bool is_staging_name(const std::string& name) {
  static const std::regex pattern("checkpoint\\.tmp-[A-Za-z0-9]{6}");
  return std::regex_match(name, pattern);
}

bool is_in_use_by_old_version(const fs::path& folder) {
  const UniqueFd lock(::open(
      (folder / kOldLock).c_str(),
      O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (lock) {
    return ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
  }
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - written < kRecent;
}

/// Returns the checkpoint that replaced the one in `folder`; empty if `folder`
/// is not a replaced checkpoint.
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

// Reports failures instead of throwing, because no data is lost.
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

// Retries, because another process may be removing the same folder.
void remove_tree(const fs::path& folder, std::error_code& error) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    error.clear();
    fs::remove_all(folder, error);
    if (error != std::errc::no_such_file_or_directory) {
      return;
    }
  }
}

// The names of staging folders in `parent`, and of locks without a folder.
std::set<fs::path> staging_folders(const fs::path& parent) {
  std::set<fs::path> found;
  const std::string_view suffix = kLockSuffix;
  std::error_code error;
  fs::directory_iterator entry(parent, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    std::error_code unknown;
    const auto type = entry->symlink_status(unknown).type();
    if (type == fs::file_type::regular && name.ends_with(suffix)) {
      name.resize(name.size() - suffix.size());
    } else if (type != fs::file_type::directory) {
      continue;
    }
    if (is_staging_name(name)) {
      found.insert(parent / name);
    }
  }
  return found;
}

// Returns whether the folder may still have a writer.
bool remove_if_abandoned(const fs::path& folder, CleanupResult& result) {
  const bool has_lock = path_exists(lock_path(folder));
  const auto lock = StagingLock::take_over(folder);
  if (has_lock ? !lock : is_in_use_by_old_version(folder)) {
    return true;
  }
  if (path_exists(folder)) {
    try_to_remove(folder, result);
  }
  return false;
}

}  // namespace

// Matches exactly the names created here: a user's folder with a similar name
// must never be removed.
bool is_temporary_name(const std::string& name) {
  return is_staging_name(name) || is_removed_name(name);
}

std::vector<fs::path> temporary_folders(const fs::path& parent) {
  std::error_code ignored;
  std::vector<fs::path> folders = subdirectories_of(parent, ignored);
  std::erase_if(folders, [](const fs::path& folder) {
    return !is_temporary_name(folder.filename().string());
  });
  std::ranges::sort(folders);
  return folders;
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
    target = str_cat(
        folder.string(), kTemporaryInfix, kRemoved, to_hex(random_bytes(4)));
    fs::rename(folder, target, error);
  }
  if (!error) {
    fs::remove(target / kManifestFile, error);
  }
  if (!error) {
    remove_tree(target, error);
  }
  if (error) {
    throw_errno("remove", folder, error.value());
  }
}

CleanupResult remove_abandoned(const fs::path& parent) {
  CleanupResult result;
  bool busy = false;
  for (const fs::path& folder : staging_folders(parent)) {
    busy = remove_if_abandoned(folder, result) || busy;
  }
  std::map<fs::path, std::vector<fs::path>> replaced;
  std::error_code ignored;
  for (const fs::path& folder : subdirectories_of(parent, ignored)) {
    if (is_removed_name(folder.filename().string())) {
      try_to_remove(folder, result);
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
      // A writer died between its two renames. If there are several replaced
      // checkpoints, the newest is unknown, so all of them stay.
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
