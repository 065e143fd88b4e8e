// SPDX-License-Identifier: Apache-2.0
// Detects whether a path is on a local disk.
#pragma once

#include <filesystem>

namespace accelerate {

/// Returns whether a path is on a local file system; false for unknown file
/// systems. On network file systems, files may disappear while they are mapped,
/// and direct I/O may not work.
bool is_on_local_disk(const std::filesystem::path& path);

}  // namespace accelerate
