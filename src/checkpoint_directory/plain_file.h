// SPDX-License-Identifier: Apache-2.0
// Opens regular files but not symbolic links.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/unique_fd.h"

namespace accelerate {

/// Opens a regular file for reading. Throws `IoError` for a symbolic link, so
/// that a file outside a checkpoint cannot pass as a file of the checkpoint.
UniqueFd open_plain_file(const std::filesystem::path& path);

/// Returns the length of a file in bytes; 0 if the system does not report the
/// length.
std::uint64_t size_of_file(const UniqueFd& fd);

}  // namespace accelerate
