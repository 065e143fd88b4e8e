// SPDX-License-Identifier: Apache-2.0
// LibTorch's Gloo process group.
#pragma once

#include <chrono>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/fwd.h"

namespace accelerate {

/// The network that Gloo's connections use.
struct GlooNetwork {
  /// Whether connections use the loopback interface and stay on this machine.
  bool loopback = false;
  /// The network interface. If empty, LibTorch chooses the interface by
  /// hostname.
  std::string interface = {};
};

/// Creates a Gloo process group.
///
/// Collective: returns when all `size` ranks have connected to each other.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const GlooNetwork& network,
    std::chrono::milliseconds timeout);

}  // namespace accelerate
