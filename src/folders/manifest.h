// SPDX-License-Identifier: Apache-2.0
// What a checkpoint folder says about itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "folders/checksum.h"

namespace accelerate {

inline constexpr const char* kManifestFile = "manifest.json";
/// The folder inside a checkpoint that belongs to the user's hooks.
inline constexpr const char* kHooksFolder = "hooks";

/// The last file that is written into a checkpoint: one with it is complete.
///
/// The format is described in docs/reference/checkpoint-format.md.
struct Manifest {
  /// A reader refuses a larger first number; a larger second one only adds.
  int major = 1;
  int minor = 0;
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t iteration = 0;
  int world_size = 1;
  /// UTC, as in RFC 3339.
  std::string created;
  /// Every other file of the folder that counts.
  std::map<std::string, FileSum> files;
  /// What hooks wrote, by paths such as `hooks/adapter/weights.bin`.
  std::map<std::string, FileSum> hook_files;

  std::uint64_t bytes() const;
  std::string to_json() const;
};

/// Throws `FormatError` naming `source` when the text is damaged, says
/// something impossible, or is of a newer format than this build reads.
Manifest parse_manifest(const std::string& text, const std::string& source);

/// Reads the manifest of a folder. Throws `IoError` where there is none, or a
/// link to one.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace accelerate
