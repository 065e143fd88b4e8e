// SPDX-License-Identifier: Apache-2.0
// Allocates the tensors of a checkpoint before its files are read.
#pragma once

#include <filesystem>
#include <span>

#include "accelerate/json.h"
#include "accelerate/tensor_map.h"
#include "checkpoint/tensor_files.h"

namespace accelerate {

/// Returns all tensors of `files` under their own names and under the aliases
/// in the files' metadata. Tensors in mapped files are views of these files.
/// For other files, allocates memory and sets the files' `targets`.
TensorMap allocate_weights(std::span<TensorFileToRead> files);

/// Allocates the tensors that `files` contain as ranges, in the shapes given by
/// `shapes`. Sets the files' `targets`, so that each range is read into its
/// position in the whole tensor. `may_map` allows large tensors to be copied
/// from the mapped files, which is faster; it may be true only if the files are
/// on a local disk.
///
/// Throws `FormatError` when ranges are missing, overlap or belong to no
/// tensor.
TensorMap allocate_ranges(
    std::span<TensorFileToRead> files,
    const Json& shapes,
    const std::filesystem::path& folder,
    bool may_map);

}  // namespace accelerate
