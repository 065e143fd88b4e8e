// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint, without building them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/safetensors_header.h"
#include "folders/manifest.h"

namespace accelerate {

/// A tensor and the file it is in.
struct TensorPlace {
  std::string file;
  SafetensorsEntry entry;
};

/// Every tensor of a checkpoint's safetensors files, in the order of the files
/// and of the bytes in them. Reads headers only.
std::vector<TensorPlace> tensors_of_checkpoint(
    const std::filesystem::path& folder, const Manifest& manifest);

/// How a tensor of one checkpoint differs from its namesake in another.
struct TensorDifference {
  std::string name;
  /// "only in the first", "only in the second", "F32[3] and F32[4]", or, for
  /// values, how many differ and by how much at most.
  std::string what;
};

/// Compares two checkpoints tensor by tensor, whatever files they lie in.
std::vector<TensorDifference> compare_checkpoints(
    const std::filesystem::path& first, const std::filesystem::path& second);

}  // namespace accelerate
