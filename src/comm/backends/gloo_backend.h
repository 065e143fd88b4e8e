// SPDX-License-Identifier: Apache-2.0
// LibTorch's Gloo process group.
#pragma once

#include <chrono>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/fwd.h"

namespace accelerate {

/// Which network Gloo's connections use.
struct GlooNetwork {
  /// Keeps them on this host.
  bool loopback = false;
  /// A network interface by name; empty: LibTorch's choice by host name.
  std::string interface = {};
};

/// Makes a Gloo group.
///
/// Collective: returns when all `size` ranks have connected to each other.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const GlooNetwork& network,
    std::chrono::milliseconds timeout);

}  // namespace accelerate
