// SPDX-License-Identifier: Apache-2.0
// Runs that can be repeated.
//
//     accelerate::set_seed(42);
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/export.h"

namespace accelerate {

struct SetSeedOptions {
  /// Adds the process index, so that each process draws other numbers.
  bool device_specific = false;
  /// Refuses operations whose result depends on timing.
  bool deterministic = false;
  /// The index that `device_specific` adds; that of the `PartialState`.
  std::optional<std::int64_t> process_index = std::nullopt;
};

/// Seeds the default generators of the CPU and of all devices.
///
/// Throws `StateError` for `device_specific` when this process has no
/// `PartialState` and no index was given.
ACCELERATE_API void set_seed(
    std::uint64_t seed, const SetSeedOptions& options = {});

}  // namespace accelerate
