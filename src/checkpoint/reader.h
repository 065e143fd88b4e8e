// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints, and checks every byte.
#pragma once

#include <filesystem>

#include "accelerate/group.h"
#include "checkpoint/contents.h"
#include "folders/checkpoints.h"

namespace accelerate {

/// Reads a checkpoint into memory of its own and compares every byte of it
/// with the manifest: each rank what it loads, and a share of the rest, or all
/// of it where ranks may not see the same disk.
///
/// Collective. Throws `FormatError` or `IoError` on every rank when one of
/// them found something wrong.
LoadedCheckpoint load_together(
    const std::filesystem::path& folder, const Group& group, bool share);

}  // namespace accelerate
