// SPDX-License-Identifier: Apache-2.0
// Which device a process computes on.
#pragma once

#include <optional>

#include <c10/core/Device.h>

#include "accelerate/group.h"
#include "config/environment.h"
#include "state/topology.h"

namespace accelerate {

struct PlacementWishes {
  /// The CPU was asked for.
  bool cpu = false;
  /// The backend that was asked for.
  std::optional<Backend> backend = std::nullopt;
};

/// The device that `index` of `processes` on this host gets among `devices`
/// accelerators, one each. `shares` allows several processes on one.
///
/// Throws `UnsupportedError` when there are not enough.
int device_index(int index, int processes, int devices, bool shares);

/// Chooses the device and makes it the current one of this thread.
///
/// The CPU without an accelerator, or when asked for; else the accelerator
/// whose number is the process's on its host. ACCELERATE_TORCH_DEVICE names
/// one. Throws `ConfigError` when wishes contradict, `UnsupportedError` when
/// what was asked for is not there; warns when a GPU is there and cannot be
/// used.
c10::Device place(
    const Environment& environment,
    const Topology& topology,
    const PlacementWishes& wishes);

}  // namespace accelerate
