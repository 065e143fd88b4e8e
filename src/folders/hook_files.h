// SPDX-License-Identifier: Apache-2.0
// Files that a user's hooks add to a checkpoint.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "folders/checksum.h"

namespace accelerate {

/// Brings what hooks wrote below `<folder>/hooks` to the disk and returns it by
/// its path from `folder`; an empty folder goes away.
///
/// Throws `IoError`, also for links and other things that are no files: they
/// would not be what was saved.
std::map<std::string, FileSum> take_hook_files(
    const std::filesystem::path& folder);

}  // namespace accelerate
