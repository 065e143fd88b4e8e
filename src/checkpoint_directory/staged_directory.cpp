// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/staged_directory.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/message.h"
#include "base/new_file.h"
#include "base/str_cat.h"
#include "checkpoint_directory/checksummed_file.h"
#include "checkpoint_directory/renames.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Creates missing folders and syncs their parents.
void create_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(folder).lexically_normal();
       !path_exists(at) && at.has_relative_path();
       at = at.parent_path()) {
    missing.push_back(at);
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw_errno("create", folder, error.value());
  }
  for (const fs::path& made : missing) {
    sync_directory(made.parent_path());
  }
}

[[noreturn]] void throw_taken(const fs::path& path) {
  throw StateError(
      str_cat(path.string(), " already exists"),
      "save under another name, or remove it first");
}

// Only a checkpoint or an empty folder may be replaced. Returns whether the
// folder is empty.
bool is_empty_or_checkpoint(const fs::path& final) {
  std::error_code error;
  const bool is_folder = fs::is_directory(final, error);
  const bool is_empty = is_folder && fs::is_empty(final, error);
  if (is_folder && error) {
    throw_errno("read", final, error.value());
  }
  if (!is_empty && !path_exists(final / kManifestFile)) {
    throw StateError(
        str_cat(final.string(), " exists and is not a checkpoint"),
        "save under another name; nothing was changed");
  }
  return is_empty;
}

}  // namespace

StagedDirectory::StagedDirectory(const fs::path& parent) : parent_(parent) {
  create_folders(parent_);
  lock_.emplace(StagingLock::create(parent_));
  if (::mkdir(lock_->folder().c_str(), 0777) != 0) {
    throw_errno("create", lock_->folder(), errno);
  }
  path_ = lock_->folder();
}

StagedDirectory::~StagedDirectory() {
  if (!path_.empty()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
}

fs::path StagedDirectory::commit(
    const Manifest& manifest,
    const std::string& name,
    const IfExists existing) {
  complete(manifest);
  const fs::path final = parent_ / name;
  const fs::path old = give_name(final, existing);
  try {
    sync_directory(parent_);
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
    print_warning(error.what());
  }
  lock_.reset();
  if (existing == IfExists::replace) {
    for (const std::string& problem : remove_replaced(final).problems) {
      print_warning(problem);
    }
  }
  return final;
}

// Writes the manifest, which is the last file of a checkpoint.
void StagedDirectory::complete(const Manifest& manifest) {
  const auto manifest_path = path_ / kManifestFile;
  if (has_manifest_ && ::unlink(manifest_path.c_str()) != 0 &&
      errno != ENOENT) {
    throw_errno("write", manifest_path, errno);
  }
  has_manifest_ = true;
  write_checksummed(manifest_path, manifest.to_json());
  sync_directory(path_);
}

fs::path StagedDirectory::give_name(
    const fs::path& final, const IfExists existing) {
  const int error = rename_no_replace(path_, final);
  if (error == 0) {
    return {};
  }
  if (!is_name_taken_error(error)) {
    throw_errno("write", final, error);
  }
  if (existing == IfExists::refuse) {
    throw_taken(final);
  }
  return replace(final);
}

fs::path StagedDirectory::replace(const fs::path& final) {
  const bool is_empty = is_empty_or_checkpoint(final);
  const int error = rename_with_flags(path_, final, RENAME_EXCHANGE);
  if (error == 0) {
    return path_;
  }
  if (!is_unsupported_error(error)) {
    throw_errno("write", final, error);
  }
  if (!is_empty) {
    return replace_in_two_steps(final);
  }
  if (const int failed = rename_path(path_, final)) {
    throw_errno("write", final, failed);
  }
  return {};
}

// Between the two renames, the old checkpoint has the name that `replaced_path`
// returns. `load_state` also finds checkpoints with such a name.
fs::path StagedDirectory::replace_in_two_steps(const fs::path& final) {
  const fs::path old = replaced_path(final);
  if (const int error = rename_path(final, old)) {
    throw_errno("write", final, error);
  }
  const int error = rename_path(path_, final);
  if (error == 0) {
    return old;
  }
  if (rename_path(old, final) != 0) {
    throw IoError(
        str_cat(
            "cannot write ",
            final.string(),
            ": ",
            errno_text(error),
            "; the previous checkpoint is now at ",
            old.string()),
        "rename the previous checkpoint back when the disk works again, or let "
        "the next save do so");
  }
  throw_errno("write", final, error);
}

// Undoes the rename after a failed sync, because a name that may not be on the
// disk is not reliable. If this fails too, everything stays where it is.
void StagedDirectory::take_name_back(
    const fs::path& final, const fs::path& old) {
  if (old == path_) {
    if (rename_with_flags(path_, final, RENAME_EXCHANGE) != 0) {
      path_.clear();  // The folder is now the old checkpoint.
    }
    return;
  }
  if (rename_path(final, path_) == 0 && !old.empty()) {
    rename_path(old, final);
  }
}

}  // namespace accelerate
