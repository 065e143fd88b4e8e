// SPDX-License-Identifier: Apache-2.0
// The store through which the processes of a run find each other.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/fwd.h"
#include "state/topology.h"

namespace accelerate {

/// Opens the store of the run.
///
/// `init_method` is `env://` (or left out), `tcp://host:port` or
/// `file:///path`. On one host nothing listens outside 127.0.0.1: rank 0 hosts
/// the store on a socket bound there, or, when no port is known, the processes
/// meet in a file named after their common parent.
///
/// Collective: the n-th store of one process holds the keys of the n-th store
/// of the others, and no older ones.
///
/// Throws `ConfigError` when several hosts have no address to meet at,
/// `DistributedError` when the store cannot be reached in time.
c10::intrusive_ptr<c10d::Store> open_store(
    const Topology& topology,
    const std::optional<std::string>& init_method,
    std::chrono::milliseconds timeout);

/// Throws `ArgumentError` that names the forms unless `method` has one of
/// those that `open_store` takes.
void check_init_method(const std::string& method);

/// A socket that listens on 127.0.0.1:`port`; port 0 picks a free one.
/// Returns the descriptor. Throws `IoError` when the port is taken.
int listen_on_loopback(int port);

}  // namespace accelerate
