// SPDX-License-Identifier: Apache-2.0
// Seeds the random number generators, for reproducible runs.
//
//     accelerate::set_seed(42);
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/export.h"

namespace accelerate {

struct SetSeedOptions {
  /// Whether to add the process index to the seed, so that every process draws
  /// different random numbers.
  bool device_specific = false;
  /// Whether operations without a deterministic implementation throw.
  bool deterministic = false;
  /// The index that `device_specific` adds. Default: the process index of the
  /// `PartialState`.
  std::optional<std::int64_t> process_index = std::nullopt;
};

/// Seeds LibTorch's default random number generators for the CPU and for all
/// devices.
///
/// Throws `StateError` when `device_specific` is true, `process_index` is not
/// set and this process has no `PartialState`.
ACCELERATE_API void set_seed(
    std::uint64_t seed, const SetSeedOptions& options = {});

}  // namespace accelerate
