// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints, after checking every byte.
#pragma once

#include <filesystem>

#include "accelerate/group.h"
#include "checkpoint/contents.h"
#include "folders/checkpoints.h"

namespace accelerate {

/// Looks at every file of a checkpoint, each rank at a share of them, or at all
/// where ranks may not see the same disk.
///
/// Collective. Throws `FormatError` or `IoError` on every rank when one of
/// them found something wrong.
void verify_together(
    const std::filesystem::path& folder, const Group& group, bool share);

/// Opens all files of a checkpoint that was verified. Copies nothing but
/// tensors that were written in several ranges.
LoadedCheckpoint open_checkpoint(const std::filesystem::path& folder);

}  // namespace accelerate
