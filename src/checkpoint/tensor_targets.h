// SPDX-License-Identifier: Apache-2.0
// Allocates the tensors of a checkpoint before its files are read.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "accelerate/tensor_map.h"
#include "checkpoint/contents.h"
#include "checkpoint/saved_tensors.h"
#include "checkpoint/tensor_files.h"

namespace accelerate {

/// Allocates the tensors that `files` contain as ranges. Sets the files'
/// `targets`, so that each range is read into its position in the whole tensor.
/// `may_map` allows large tensors to be copied from the mapped files, which is
/// faster; it may be true only if the files are on a local disk.
TensorMap allocate_ranges(
    std::span<TensorFileToRead> files,
    const SavedTensors& tensors,
    bool may_map);

/// Like `allocate_ranges`, for files with whole tensors. The result contains
/// each tensor under its name and under its aliases in the files' metadata.
TensorMap allocate_weights(
    std::span<TensorFileToRead> files,
    const SavedTensors& tensors,
    bool may_map);

/// The ranges that a rank requested, and where their bytes are in the files.
struct RequestedRanges {
  std::vector<TensorRange> ranges;
  std::vector<FileRange> reads;
};

/// Allocates the requested ranges of the tensors of one key. Throws an
/// `ArgumentError` that names `key` if a request names a tensor that is not in
/// the checkpoint or elements that the tensor does not have.
RequestedRanges allocate_requested(
    std::span<const TensorFileToRead> files,
    const SavedTensors& tensors,
    const std::vector<RangeRequest>& requests,
    const std::string& key);

}  // namespace accelerate
