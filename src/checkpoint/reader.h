// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints and verifies every byte.
#pragma once

#include <filesystem>

#include "accelerate/group.h"
#include "checkpoint/contents.h"
#include "checkpoint_directory/checkpoints.h"

namespace accelerate {

/// Reads a checkpoint and verifies every file against the checksums in the
/// manifest. Each rank verifies the files of models and optimizers while
/// loading them. With `share`, the ranks divide the verification of all other
/// files among themselves. Without `share`, each rank verifies all files
/// itself; use this if the ranks may not share a disk.
///
/// Collective. Throws `FormatError`, `IoError` or `OutOfMemoryError` on every
/// rank if any rank has a problem.
LoadedCheckpoint load_checkpoint(
    const std::filesystem::path& folder, const Group& group, bool share);

}  // namespace accelerate
