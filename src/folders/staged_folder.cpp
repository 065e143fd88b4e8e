// SPDX-License-Identifier: Apache-2.0
#include "folders/staged_folder.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "folders/renames.h"
#include "folders/summed_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Creates missing folders; each is in its parent for good when this returns.
void create_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(folder).lexically_normal();
       !is_there(at) && at.has_relative_path();
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

[[noreturn]] void throw_taken(const fs::path& path) {
  throw StateError(
      str_cat(path.string(), " exists"),
      "save under another name, or remove it first");
}

// Only a checkpoint, or nothing, may make room for another. Returns whether it
// is nothing: an empty folder.
bool is_empty_or_checkpoint(const fs::path& final) {
  std::error_code error;
  const bool is_folder = fs::is_directory(final, error);
  const bool is_empty = is_folder && fs::is_empty(final, error);
  if (is_folder && error) {
    throw_errno("read", final, error.value());
  }
  if (!is_empty && !is_there(final / kManifestFile)) {
    throw StateError(
        str_cat(final.string(), " exists and is no checkpoint"),
        "save under another name; nothing there was touched");
  }
  return is_empty;
}

void warn(const std::string& problem) {
  std::cerr << str_cat("warning: ", problem, "\n") << std::flush;
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
  const fs::path unlocked = path_ / str_cat(kLockFile, "-");
  lock_ = UniqueFd(
      ::open(unlocked.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(unlocked.c_str(), (path_ / kLockFile).c_str()) != 0) {
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
  complete(manifest);
  const fs::path final = parent_ / name;
  const fs::path old = give_name(final, existing);
  try {
    sync_folder(parent_);
  } catch (const Error&) {
    take_name_back(final, old);
    throw;
  }
  path_.clear();
  try {
    if (!old.empty()) {
      remove_folder(old);
    }
  } catch (const Error& error) {
    warn(error.what());
  }
  if (existing == Existing::replace) {
    for (const std::string& problem : remove_replaced(final).problems) {
      warn(problem);
    }
  }
  return final;
}

// The manifest is the last file. Nobody needs the lock any more.
void StagedFolder::complete(const Manifest& manifest) {
  const auto manifest_path = path_ / kManifestFile;
  if (has_manifest_ && ::unlink(manifest_path.c_str()) != 0 &&
      errno != ENOENT) {
    throw_errno("write", manifest_path, errno);
  }
  has_manifest_ = true;
  write_summed(manifest_path, manifest.to_json());
  ::unlink((path_ / kLockFile).c_str());
  sync_folder(path_);
}

fs::path StagedFolder::give_name(
    const fs::path& final, const Existing existing) {
  const int error = rename_to_free_name(path_, final);
  if (error == 0) {
    return {};
  }
  if (!is_taken(error)) {
    throw_errno("write", final, error);
  }
  if (existing == Existing::refuse) {
    throw_taken(final);
  }
  return replace(final);
}

fs::path StagedFolder::replace(const fs::path& final) {
  const bool is_empty = is_empty_or_checkpoint(final);
  const int error = rename_with(path_, final, RENAME_EXCHANGE);
  if (error == 0) {
    return path_;
  }
  if (!is_unknown(error)) {
    throw_errno("write", final, error);
  }
  if (!is_empty) {
    return replace_in_two_steps(final);
  }
  if (const int failed = rename_plainly(path_, final)) {
    throw_errno("write", final, failed);
  }
  return {};
}

// Between the two the old one has its other name, under which it is found too.
fs::path StagedFolder::replace_in_two_steps(const fs::path& final) {
  const fs::path old = replaced_path(final);
  if (const int error = rename_plainly(final, old)) {
    throw_errno("write", final, error);
  }
  const int error = rename_plainly(path_, final);
  if (error == 0) {
    return old;
  }
  if (rename_plainly(old, final) != 0) {
    throw IoError(
        str_cat(
            "cannot write ",
            final.string(),
            ": ",
            errno_text(error),
            "; the checkpoint that was there is ",
            old.string()),
        "rename it when the disk works again; the next save does so too");
  }
  throw_errno("write", final, error);
}

// Names that may not be on the disk are no checkpoint to rely on. Should this
// fail, everything stays where it is.
void StagedFolder::take_name_back(const fs::path& final, const fs::path& old) {
  if (old == path_) {
    if (rename_with(path_, final, RENAME_EXCHANGE) != 0) {
      path_.clear();  // It is the old checkpoint.
    }
    return;
  }
  if (rename_plainly(final, path_) == 0 && !old.empty()) {
    rename_plainly(old, final);
  }
}

}  // namespace accelerate
