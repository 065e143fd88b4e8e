// SPDX-License-Identifier: Apache-2.0
#include "folders/leftovers.h"

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
#include "folders/checkpoints.h"
#include "folders/renames.h"
#include "folders/staged_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplaced = ".old-";
// Longer than making a folder and the lock in it can take.
constexpr std::chrono::minutes kYoung(10);

// True when somebody holds the lock of a folder, or may be about to.
bool is_in_use(const fs::path& folder) {
  const UniqueFd lock(::open(
      (folder / kLockFile).c_str(),
      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (lock) {
    return ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
  }
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - written < kYoung;
}

/// Whose replaced checkpoint this is; nothing for any other folder.
std::optional<fs::path> replaced_by(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const auto at = name.rfind(kReplaced);
  if (at == name.npos || at == 0) {
    return std::nullopt;
  }
  const fs::path checkpoint = folder.parent_path() / name.substr(0, at);
  try {
    const std::string sum = sum_of_file(folder / kManifestFile).xxh3;
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

void try_to_remove(const fs::path& folder, Abandoned& found) {
  try {
    remove_folder(folder);
    found.removed.push_back(folder.filename().string());
  } catch (const Error& problem) {
    found.problems.emplace_back(problem.what());
  }
}

// Without it nothing is lost either, so that a failure is no more than that.
void put_back(
    const fs::path& replaced, const fs::path& checkpoint, Abandoned& found) {
  const int error = rename_to_free_name(replaced, checkpoint);
  if (error != 0) {
    found.problems.push_back(
        str_cat("cannot rename ", replaced.string(), ": ", errno_text(error)));
  }
}

}  // namespace

// Exactly the names that are given here: a user's folder that only looks
// similar must never be taken for ours and removed.
bool is_temporary_name(const std::string& name) {
  static const std::regex ours(
      "checkpoint\\.tmp-[A-Za-z0-9]{6}|.+\\.tmp-removed-[0-9]+");
  return std::regex_match(name, ours);
}

fs::path replaced_path(const fs::path& checkpoint) {
  return str_cat(
      checkpoint.string(),
      kReplaced,
      sum_of_file(checkpoint / kManifestFile).xxh3);
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(folder, error)) {
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
  std::map<fs::path, std::vector<fs::path>> replaced;
  bool busy = false;
  std::error_code ignored;
  for (const fs::path& folder : folders_in(parent, ignored)) {
    if (is_temporary_name(folder.filename().string())) {
      const bool alive = is_in_use(folder);
      busy = busy || alive;
      if (!alive) {
        try_to_remove(folder, found);
      }
    } else if (const auto checkpoint = replaced_by(folder)) {
      replaced[*checkpoint].push_back(folder);
    }
  }
  for (const auto& [checkpoint, olds] : replaced) {
    if (is_complete(checkpoint)) {
      for (const fs::path& old : olds) {
        try_to_remove(old, found);
      }
    } else if (!is_there(checkpoint) && !busy && olds.size() == 1) {
      // A writer died between its two renames. Which one of several is the
      // newest is not for us to guess: all of them are listed.
      put_back(olds.front(), checkpoint, found);
    }
  }
  return found;
}

Abandoned remove_replaced(const fs::path& checkpoint) {
  Abandoned found;
  std::error_code ignored;
  for (const fs::path& folder : folders_in(checkpoint.parent_path(), ignored)) {
    if (replaced_by(folder) == checkpoint) {
      try_to_remove(folder, found);
    }
  }
  return found;
}

}  // namespace accelerate
