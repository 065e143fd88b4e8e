// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: information about the run and a list of the
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint_directory/checksum.h"

namespace accelerate {

inline constexpr const char* kManifestFile = "manifest.json";
/// The folder inside a checkpoint for files that user hooks write.
inline constexpr const char* kHooksDirectory = "hooks";

/// The contents of `manifest.json`. This file is written last, so a checkpoint
/// with a manifest was written completely.
///
/// The format is described in docs/reference/checkpoint-format.md.
struct Manifest {
  /// The version of the format. Readers reject a larger major version; a larger
  /// minor version only adds fields.
  int major = 1;
  int minor = 0;
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t iteration = 0;
  int world_size = 1;
  /// When the checkpoint was created: UTC, in RFC 3339 format.
  std::string created;
  /// All files of the checkpoint, by name, except the manifest and hook files.
  std::map<std::string, FileChecksum> files;
  /// The files that hooks wrote, by path, such as `hooks/adapter/weights.bin`.
  std::map<std::string, FileChecksum> hook_files;

  std::uint64_t bytes() const;
  std::string to_json() const;
};

/// Parses a manifest. Throws a `FormatError` that names `source` if the text is
/// damaged, contains invalid values, or has a newer format than this version
/// can read.
Manifest parse_manifest(const std::string& text, const std::string& source);

/// Reads the manifest in a checkpoint folder. Throws `IoError` if the manifest
/// is missing or is a symbolic link, and `FormatError` like `parse_manifest`.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace accelerate
