// SPDX-License-Identifier: Apache-2.0
// Selects the device for a process.
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/Device.h>

#include "accelerate/group.h"
#include "config/environment.h"
#include "state/topology.h"

namespace accelerate {

struct PlacementOptions {
  /// Whether the user requested the CPU.
  bool cpu = false;
  /// The device that the user requested in the program.
  std::optional<c10::Device> device = std::nullopt;
  /// The backend that the user requested.
  std::optional<Backend> backend = std::nullopt;
};

/// Returns the index of the accelerator for local process `index` on a machine
/// with `processes` processes and `devices` accelerators. Each process gets its
/// own accelerator if there are enough; otherwise, up to `processes_per_device`
/// processes share an accelerator.
///
/// Throws `UnsupportedError` when there is no accelerator, or when there are
/// too few.
int device_index(
    int index, int processes, int devices, std::int64_t processes_per_device);

/// Selects the device and makes it the current device of this thread.
///
/// Selects the CPU if it was requested or there is no accelerator, otherwise
/// the accelerator that `device_index` returns. The option `device`,
/// ACCELERATE_TORCH_DEVICE and PJRT_DEVICE, in this order, override this
/// choice. Throws `ConfigError` when settings contradict each other, and
/// `UnsupportedError` when the requested device is missing. Warns when there is
/// a GPU that cannot be used.
c10::Device select_device(
    const Environment& environment,
    const Topology& topology,
    const PlacementOptions& options);

}  // namespace accelerate
