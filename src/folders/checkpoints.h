// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a folder: which there are, which are whole.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "folders/manifest.h"

namespace accelerate {

struct CheckpointEntry {
  std::filesystem::path path;
  /// Nothing when it is not complete; `problem` says why.
  std::optional<Manifest> manifest;
  std::string problem;
};

/// The checkpoints in a folder, oldest first: by iteration, then by name.
/// A folder without manifest counts when its name begins with `checkpoint`;
/// links to folders do not.
///
/// Throws `IoError` when the folder cannot be read.
std::vector<CheckpointEntry> list_checkpoints(
    const std::filesystem::path& folder);

/// What is wrong with one part of a checkpoint.
struct Damage {
  std::string file;
  std::string what;
};

struct VerifyOptions {
  /// Reads every byte. Without it only names, kinds and sizes are compared.
  bool checksums = true;
  /// Of that many readers this one takes every so manieth file.
  int reader = 0;
  int readers = 1;
  /// So many files are read at once.
  int threads = 1;
  /// Files whose bytes somebody else compares.
  std::set<std::string> without = {};
};

/// Compares a checkpoint with its manifest; empty when it is whole.
std::vector<Damage> verify_checkpoint(
    const std::filesystem::path& folder,
    const Manifest& manifest,
    const VerifyOptions& options = {});

/// One line for each, for errors.
std::string describe(const std::vector<Damage>& damages);

struct PruneOptions {
  /// So many complete checkpoints stay, 1 or more.
  std::size_t keep = 1;
  /// This one stays, and all that are newer.
  std::filesystem::path newest = {};
  /// Complete is one whose every byte is as its manifest says; without it one
  /// with all files in their sizes.
  bool checksums = false;
};

/// Removes the oldest complete checkpoints; returns their paths. What is not
/// complete is neither counted nor touched.
std::vector<std::filesystem::path> prune_checkpoints(
    const std::filesystem::path& folder, const PruneOptions& options);

/// A number above those of all complete checkpoints in a folder; 0 where there
/// is none.
std::int64_t next_checkpoint_number(const std::filesystem::path& folder);

/// The number at the end of `checkpoint_12`, if that is its form.
std::optional<std::int64_t> checkpoint_number(const std::string& name);

}  // namespace accelerate
