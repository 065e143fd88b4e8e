// SPDX-License-Identifier: Apache-2.0
// A backend on every rank or on none.
#pragma once

#include <functional>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/rendezvous.h"

namespace accelerate {

/// Makes this rank's end of a backend whose ranks meet in a store. Owns what it
/// uses: it is left behind when it does not come to an end.
using MakeBackend = std::function<c10::intrusive_ptr<c10d::Backend>(
    const c10::intrusive_ptr<c10d::Store>&)>;

/// Calls `make` on every rank, and again with a fresh part of the store when it
/// failed on one: connecting many sockets at once now and then loses one on a
/// busy host, and starting over is cheaper than losing the run.
///
/// Collective. Throws `DistributedError` that says what each rank saw when the
/// third attempt has failed too, or when a rank did not come.
c10::intrusive_ptr<c10d::Backend> connect_all(
    const Seat& seat, const Patience& patience, const MakeBackend& make);

}  // namespace accelerate
