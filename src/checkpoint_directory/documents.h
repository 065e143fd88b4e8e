// SPDX-License-Identifier: Apache-2.0
// The parts of a checkpoint that are not tensors: settings, counters, hook
// files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate {

/// A difference between the documents or hook files of two checkpoints.
struct DocumentDifference {
  /// The file, such as `optimizer.json`.
  std::string document;
  /// The path to the value that differs, such as `param_groups[0].lr`. Empty if
  /// the description refers to the whole file.
  std::string key;
  /// "0.1 and 0.05", "only in the first" or "only in the second". For long
  /// lists: how many values differ.
  std::string description;
};

/// Compares the JSON documents of two checkpoints, the run information in their
/// manifests, and their hook files. Skips the index of a model's files: it
/// depends only on how many processes wrote the model.
///
/// Throws `IoError` if a file cannot be read or is a symbolic link, and
/// `FormatError` if a file is damaged.
std::vector<DocumentDifference> compare_documents(
    const std::filesystem::path& first, const std::filesystem::path& second);

}  // namespace accelerate
