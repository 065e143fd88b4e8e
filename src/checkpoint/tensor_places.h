// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a checkpoint go before its files are read.
#pragma once

#include <filesystem>
#include <span>

#include "accelerate/json.h"
#include "accelerate/tensor_map.h"
#include "checkpoint/tensor_files.h"

namespace accelerate {

/// All tensors of some files, each whole and under its own name; aliases that
/// a file's metadata gives are there too. Sets the targets in memory of its
/// own, for files that are not mapped.
TensorMap place_weights(std::span<TensorFileToRead> files);

/// Tensors that lie in some files as ranges, whole and in the shapes of
/// `shapes`. Sets the targets in memory of its own: a range is read to its
/// place in the whole. `may_map`: the files are on a local disk.
///
/// Throws `FormatError` when ranges are missing, overlap or belong to nothing.
TensorMap place_ranges(
    std::span<TensorFileToRead> files,
    const Json& shapes,
    const std::filesystem::path& folder,
    bool may_map);

}  // namespace accelerate
