// SPDX-License-Identifier: Apache-2.0
// Checks that all ranks have the same tensors.
#pragma once

#include <filesystem>
#include <vector>

#include "accelerate/group.h"
#include "accelerate/json.h"
#include "checkpoint/parts.h"

namespace accelerate {

/// Returns a checksum of `part.layouts` for each key.
Json layout_checksums(const Part& part);

/// Unless all ranks have the same `part.layouts`, throws a `StateError` that
/// names a tensor and two ranks. `checksums` has the `layout_checksums` of each
/// rank in `group`; the ranks communicate only if the checksums differ.
/// `target` is the checkpoint, for the error message. Collective.
void check_layouts(
    const std::vector<Json>& checksums,
    const Part& part,
    const Group& group,
    const std::filesystem::path& target);

}  // namespace accelerate
