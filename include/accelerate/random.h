// SPDX-License-Identifier: Apache-2.0
// Copies the state of random number generators from process 0 to all processes.
#pragma once

#include <vector>

#include <ATen/core/Generator.h>

#include "accelerate/export.h"
#include "accelerate/group.h"
#include "accelerate/operations.h"
#include "accelerate/rng_type.h"

namespace accelerate {

/// Selects a generator by `type`, and copies its state from process 0 to every
/// process.
///
/// Collective. Throws `ArgumentError` for `RngType::generator` without a
/// generator, and `UnsupportedError` for `RngType::cuda` if the processes use
/// the CPU.
ACCELERATE_API void synchronize_rng_state(
    RngType type,
    std::optional<at::Generator> generator = std::nullopt,
    const Group& group = world());

/// Same as `synchronize_rng_state`, for several generators.
ACCELERATE_API void synchronize_rng_states(
    const std::vector<RngType>& types,
    std::optional<at::Generator> generator = std::nullopt,
    const Group& group = world());

}  // namespace accelerate
