// SPDX-License-Identifier: Apache-2.0
// Collective algorithms over a transport, on plain memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm/reduce_kernels.h"
#include "comm/transport.h"

namespace accelerate {

/// The element type and the operation of a reduction.
struct ReduceSpec {
  ReduceKind kind;
  c10::ScalarType type;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// Every rank of the transport must call the functions below, with buffers of
/// the same length unless noted otherwise. The functions throw the same errors
/// as `Transport::deliver`.

void all_reduce(Transport&, const Call&, Bytes data, ReduceSpec spec);

/// `ins[r]` is this rank's contribution to `out` on rank r.
void reduce_scatter(
    Transport&,
    const Call&,
    std::span<const ConstBytes> ins,
    Bytes out,
    ReduceSpec spec);

void broadcast(Transport&, const Call&, Bytes data, int root);

void all_gather(
    Transport&, const Call&, ConstBytes in, std::span<const Bytes> outs);

/// `ins` is empty except on `root`.
void scatter(
    Transport&,
    const Call&,
    std::span<const ConstBytes> ins,
    Bytes out,
    int root);

void barrier(Transport&, const Call&);

}  // namespace accelerate
