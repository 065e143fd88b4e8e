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
/// `file:///path`. With `env://`, uses the launcher's store if the launcher has
/// one. If not, rank 0 serves the store; when all processes are on one machine,
/// rank 0 listens only on 127.0.0.1. If all processes are on one machine and
/// the environment specifies no port, the store is a file named after the
/// common parent process.
///
/// Collective: the n-th store that a process opens shares its keys with the
/// n-th store that every other process opens. A new store contains no keys from
/// earlier stores.
///
/// Throws `ConfigError` when the run has several machines but no rendezvous
/// address, and `DistributedError` when the store cannot be reached before the
/// timeout.
c10::intrusive_ptr<c10d::Store> open_store(
    const Topology& topology,
    const std::optional<std::string>& init_method,
    std::chrono::milliseconds timeout);

/// Throws an `ArgumentError` that lists the valid forms if `open_store` does
/// not accept `method`.
void check_init_method(const std::string& method);

/// Opens a socket that listens on 127.0.0.1:`port`; port 0 selects a free port.
/// Returns the descriptor. Throws `IoError` when the port is in use.
int listen_on_loopback(int port);

}  // namespace accelerate
