// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints and verifies every byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "accelerate/group.h"
#include "checkpoint/contents.h"
#include "checkpoint_directory/checkpoints.h"

namespace accelerate {

/// The type and shape of a tensor in a checkpoint.
struct TensorType {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<std::int64_t> shape;
};

/// Chooses what this rank loads from the tensors of one key, such as
/// `optimizer`. `saved` has the types of all tensors of this key by name.
/// Returns the ranges to load into `LoadedCheckpoint::requested`, or an empty
/// optional to load all tensors.
using ChooseRanges = std::function<std::optional<std::vector<RangeRequest>>(
    const std::string& key, const std::map<std::string, TensorType>& saved)>;

/// Reads a checkpoint and verifies every file against the checksums in the
/// manifest. Each rank verifies the files of models and optimizers while
/// loading them. With `share`, the ranks divide the verification of all other
/// files among themselves. Without `share`, each rank verifies all files
/// itself; use this if the ranks might not share a disk.
///
/// With `choose`, each rank loads the ranges that it chooses, regardless of how
/// many ranks saved the checkpoint and how they divided the tensors. From a
/// file with requested ranges, a rank reads only the bytes of these ranges.
/// With `share`, the ranks also divide the verification of these files among
/// themselves.
///
/// Collective. Throws `FormatError`, `IoError` or `OutOfMemoryError` on every
/// rank if any rank has a problem, and `ArgumentError` on every rank if any
/// rank requests elements that the checkpoint does not have.
LoadedCheckpoint load_checkpoint(
    const std::filesystem::path& folder,
    const Group& group,
    bool share,
    const ChooseRanges& choose = {});

}  // namespace accelerate
