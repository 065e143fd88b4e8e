// SPDX-License-Identifier: Apache-2.0
// Files that a user's hooks add to a checkpoint.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint_directory/checksum.h"

namespace accelerate {

/// Syncs the files that hooks wrote below `<folder>/hooks` to the disk, and
/// returns their checksums. The keys are paths relative to `folder`. Removes an
/// empty hooks folder.
///
/// Throws `IoError` if a file cannot be read. Also throws `IoError` for
/// symbolic links and anything else that is not a regular file or a folder,
/// because a copy of the checkpoint would not include their contents.
std::map<std::string, FileChecksum> collect_hook_files(
    const std::filesystem::path& folder);

}  // namespace accelerate
