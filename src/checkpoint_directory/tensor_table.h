// SPDX-License-Identifier: Apache-2.0
// Lists and compares the tensors of checkpoints without loading them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/safetensors_header.h"
#include "checkpoint_directory/manifest.h"

namespace accelerate {

/// A tensor and the file that contains it.
struct TensorLocation {
  std::string file;
  SafetensorsEntry entry;
};

/// Lists the tensors in a checkpoint's safetensors files, file by file, in the
/// order of their data. Reads only the headers of the files.
std::vector<TensorLocation> tensors_of_checkpoint(
    const std::filesystem::path& folder, const Manifest& manifest);

/// A tensor that differs between two checkpoints, or that only one of them has.
struct TensorDifference {
  std::string name;
  /// "only in the first", "only in the second" or "F32[3] and F32[4]". If
  /// values differ: how many values, and the largest difference.
  std::string description;
};

/// Compares two checkpoints tensor by tensor, regardless of how the tensors are
/// divided among files.
std::vector<TensorDifference> compare_checkpoints(
    const std::filesystem::path& first, const std::filesystem::path& second);

}  // namespace accelerate
