// SPDX-License-Identifier: Apache-2.0
// Files of a folder that are files, not links to something outside.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/unique_fd.h"

namespace accelerate {

/// Opens a plain file for reading; a link to one is an `IoError`, so that
/// nothing outside a folder can stand for a part of it.
UniqueFd open_plain_file(const std::filesystem::path& path);

/// Its length; 0 when the system does not say.
std::uint64_t size_of_file(const UniqueFd& fd);

}  // namespace accelerate
