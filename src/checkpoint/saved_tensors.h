// SPDX-License-Identifier: Apache-2.0
// The tensors in the files of a checkpoint, and where their elements are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/json.h"
#include "checkpoint/tensor_files.h"

namespace accelerate {

/// Consecutive elements of a tensor in a file.
struct SavedPiece {
  /// The index of the file in the list of files.
  std::size_t file = 0;
  /// The index in `SafetensorsHeader::tensors` of the file.
  std::size_t entry = 0;
  /// The index of the first element in the flattened tensor.
  std::size_t first = 0;
  std::size_t elements = 0;
};

/// A tensor in the files of one key, such as `optimizer`.
struct SavedTensor {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<std::int64_t> shape;
  std::size_t elements = 1;
  /// The pieces in the order of their elements. Together, they cover the tensor
  /// exactly once.
  std::vector<SavedPiece> pieces;

  std::size_t bytes() const { return elements * c10::elementSize(dtype); }
};

using SavedTensors = std::map<std::string, SavedTensor>;

/// Returns the tensors that are stored whole in `files`: each tensor under
/// its own name and under its aliases in the metadata. Throws
/// `UnsupportedError` for a type that LibTorch does not have.
SavedTensors whole_tensors_in(std::span<const TensorFileToRead> files);

/// Returns the tensors that are stored as ranges in `files`. `shapes` has the
/// types and shapes of the tensors. Throws `FormatError` when ranges are
/// missing, overlap or belong to no tensor.
SavedTensors ranged_tensors_in(
    std::span<const TensorFileToRead> files,
    const Json& shapes,
    const std::filesystem::path& folder);

}  // namespace accelerate
