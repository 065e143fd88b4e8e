// SPDX-License-Identifier: Apache-2.0
// Lists, verifies and prunes the checkpoints in a folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint_directory/manifest.h"

namespace accelerate {

struct CheckpointEntry {
  std::filesystem::path path;
  /// Not set if the checkpoint is incomplete; `problem` then gives the reason.
  std::optional<Manifest> manifest;
  std::string problem;
};

/// Lists the checkpoints in a folder, oldest first: by iteration, then by name.
/// Lists folders that contain a manifest or whose names begin with
/// `checkpoint`, even if they are incomplete. Does not list symbolic links or
/// temporary folders.
///
/// Throws `IoError` when the folder cannot be read.
std::vector<CheckpointEntry> list_checkpoints(
    const std::filesystem::path& folder);

/// A damaged file in a checkpoint and its problem.
struct Damage {
  std::string file;
  std::string problem;
};

struct VerifyOptions {
  /// If true, reads all files and compares their checksums. If false, compares
  /// only names, file types and sizes.
  bool checksums = true;
  /// Used when several readers divide the files: this reader compares the
  /// checksum of every `readers`-th file, starting with file number `reader`,
  /// counted from 0.
  int reader = 0;
  /// Number of readers that divide the files.
  int readers = 1;
  /// Number of files read at the same time.
  int threads = 1;
  /// Files whose checksums are not compared, because the caller verifies these
  /// files.
  std::set<std::string> skip_checksums = {};
};

/// Compares a checkpoint with its manifest and returns the damaged files. The
/// list is empty if the checkpoint is complete and undamaged.
std::vector<Damage> verify_checkpoint(
    const std::filesystem::path& folder,
    const Manifest& manifest,
    const VerifyOptions& options = {});

/// Returns one line per damaged file, for error messages.
std::string describe(const std::vector<Damage>& damages);

struct PruneOptions {
  /// Number of complete checkpoints to keep, 1 or more.
  std::size_t keep = 1;
  /// The checkpoint at this path and all newer checkpoints are kept, even if
  /// there are more than `keep` of them.
  std::filesystem::path newest = {};
  /// If true, a checkpoint counts as complete if every byte matches its
  /// manifest. If false, a checkpoint counts as complete if all files exist
  /// with the right sizes.
  bool checksums = false;
};

/// Removes the oldest complete checkpoints until `options.keep` are left, and
/// returns the paths of the removed checkpoints. Incomplete checkpoints are
/// neither counted nor removed.
std::vector<std::filesystem::path> prune_checkpoints(
    const std::filesystem::path& folder, const PruneOptions& options);

/// Returns the highest number of a complete checkpoint in a folder, plus 1; 0
/// if the folder has no complete checkpoint.
std::int64_t next_checkpoint_number(const std::filesystem::path& folder);

/// Returns the number in a name like `checkpoint_12`; empty for other names.
std::optional<std::int64_t> checkpoint_number(const std::string& name);

}  // namespace accelerate
