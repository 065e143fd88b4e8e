// SPDX-License-Identifier: Apache-2.0
// Connects a backend on all ranks or on no rank.
#pragma once

#include <functional>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/rendezvous.h"

namespace accelerate {

/// Creates this rank's part of a backend that connects through a store. The
/// function must own everything it uses, because it continues in the background
/// after a timeout.
using MakeBackend = std::function<c10::intrusive_ptr<c10d::Backend>(
    const c10::intrusive_ptr<c10d::Store>&)>;

/// Connects a backend through `make` on each rank, and returns this rank's part
/// of the backend. If `make` fails on any rank, all ranks call `make` again
/// with a new store prefix. Retries are needed because connecting many sockets
/// at the same time sometimes fails on a busy machine.
///
/// Collective. Throws `DistributedError` with the error from each rank if the
/// third attempt fails, or if a rank is missing.
c10::intrusive_ptr<c10d::Backend> connect_all(
    const RankContext& context,
    const WaitLimits& limits,
    const MakeBackend& make);

}  // namespace accelerate
