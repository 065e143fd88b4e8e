// SPDX-License-Identifier: Apache-2.0
// LibTorch's Gloo process group.
#pragma once

#include <chrono>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/fwd.h"

namespace accelerate {

/// Makes a Gloo group whose connections use the network interface that has
/// `address`: `127.0.0.1` keeps them on this host.
///
/// Collective: returns when all `size` ranks have connected to each other.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const std::string& address,
    std::chrono::milliseconds timeout);

}  // namespace accelerate
