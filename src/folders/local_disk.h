// SPDX-License-Identifier: Apache-2.0
// Whether a path is on a disk of this machine.
#pragma once

#include <filesystem>

namespace accelerate {

/// Files of other machines may go away under a program that looks at them, and
/// know no short way past the system's cache. False for what we do not know.
bool is_on_local_disk(const std::filesystem::path& path);

}  // namespace accelerate
