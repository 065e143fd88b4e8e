// SPDX-License-Identifier: Apache-2.0
// Random numbers that agree between processes.
#pragma once

#include <vector>

#include <ATen/core/Generator.h>

#include "accelerate/export.h"
#include "accelerate/group.h"
#include "accelerate/operations.h"
#include "accelerate/rng_type.h"

namespace accelerate {

/// Gives every process the generator state of process 0.
///
/// Collective. Throws `ArgumentError` for `RngType::generator` without one,
/// `UnsupportedError` for `RngType::cuda` on a CPU.
ACCELERATE_API void synchronize_rng_state(
    RngType type,
    std::optional<at::Generator> generator = std::nullopt,
    const Group& group = world());

/// The same for several kinds.
ACCELERATE_API void synchronize_rng_states(
    const std::vector<RngType>& types,
    std::optional<at::Generator> generator = std::nullopt,
    const Group& group = world());

}  // namespace accelerate
