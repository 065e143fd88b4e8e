// SPDX-License-Identifier: Apache-2.0
// How much memory is left.
#pragma once

#include <cstdint>

namespace accelerate {

/// What the kernel could give this process without ending one for it; large
/// where it does not say.
std::uint64_t available_bytes();

}  // namespace accelerate
