// SPDX-License-Identifier: Apache-2.0
// Available host memory.
#pragma once

#include <cstdint>

namespace accelerate {

/// Returns how many more bytes this process can allocate before the machine or
/// the process's cgroup runs out of memory; `UINT64_MAX` if unknown.
std::uint64_t available_bytes();

}  // namespace accelerate
