// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds beside tensors: settings, counts, files of hooks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate {

/// How a value of one checkpoint differs from its namesake in another.
struct DocumentDifference {
  /// The file, such as `optimizer.json`.
  std::string document;
  /// The way to the value, such as `param_groups[0].lr`; empty for all of it.
  std::string key;
  /// "0.1 and 0.05", "only in the first", "only in the second"; for long lists
  /// how many values differ.
  std::string what;
};

/// Compares the JSON documents of two checkpoints, what their manifests say
/// of the run, and the files of hooks. The index of a model's files is left
/// out: it tells how many processes wrote, as do the files themselves.
///
/// Throws `IoError` and `FormatError`, also for links.
std::vector<DocumentDifference> compare_documents(
    const std::filesystem::path& first, const std::filesystem::path& second);

}  // namespace accelerate
