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

/// Chooses what this rank loads of the tensors of one key, such as `optimizer`;
/// `saved` has all of them by name. Returns the ranges to load, which go into
/// `LoadedCheckpoint::requested`. Returns an empty optional to load all
/// tensors.
using ChooseRanges = std::function<std::optional<std::vector<RangeRequest>>(
    const std::string& key, const std::map<std::string, TensorType>& saved)>;

/// Reads a checkpoint and verifies every file against the checksums in the
/// manifest. Each rank verifies the files of models and optimizers while
/// loading them. With `share`, the ranks divide the verification of all other
/// files among themselves. Without `share`, each rank verifies all files
/// itself; use this if the ranks may not share a disk.
///
/// With `choose`, each rank may load other ranges, however many ranks saved the
/// checkpoint and however they divided the tensors. Of a file with requested
/// ranges, a rank reads the bytes of these ranges; the whole file is read only
/// to verify it, which the ranks divide like the other files.
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
