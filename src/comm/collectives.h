// SPDX-License-Identifier: Apache-2.0
// Collectives on plain memory, in terms of a transport's deliveries.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm/reduce_kernels.h"
#include "comm/transport.h"

namespace accelerate {

/// A row of equal numbers in memory, and how to reduce it.
struct ReduceSpec {
  ReduceKind kind;
  c10::ScalarType type;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// The collectives below run on every rank of the transport, with memory of
/// the same length on every rank except where lengths are given one by one.
/// They throw what `Transport::deliver` throws.

void all_reduce(Transport&, const Call&, Bytes data, ReduceSpec spec);

void reduce(Transport&, const Call&, Bytes data, ReduceSpec spec, int root);

/// `ins[r]` is what this rank contributes to rank r's result `out`.
void reduce_scatter(
    Transport&,
    const Call&,
    std::span<const ConstBytes> ins,
    Bytes out,
    ReduceSpec spec);

void broadcast(Transport&, const Call&, Bytes data, int root);

void all_gather(
    Transport&, const Call&, ConstBytes in, std::span<const Bytes> outs);

/// `outs` is empty except on `root`.
void gather(
    Transport&,
    const Call&,
    ConstBytes in,
    std::span<const Bytes> outs,
    int root);

/// `ins` is empty except on `root`.
void scatter(
    Transport&,
    const Call&,
    std::span<const ConstBytes> ins,
    Bytes out,
    int root);

/// `ins[r]` goes to rank r, `outs[r]` comes from it; lengths may differ.
/// Throws `MismatchError` on a rank that gets another length than it expects.
void all_to_all(
    Transport&,
    const Call&,
    std::span<const ConstBytes> ins,
    std::span<const Bytes> outs);

void barrier(Transport&, const Call&);

}  // namespace accelerate
