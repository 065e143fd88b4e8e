// SPDX-License-Identifier: Apache-2.0
// What every backend must do, checked on every rank against a plain loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/group.h"

namespace accelerate {

/// A check of one group; throws `std::runtime_error` that says what differs.
using Conformance = std::function<void(Group&)>;

/// Each operation of `c10d::Backend`, with all types and awkward sizes.
/// Named, so that tests can be listed one by one.
const std::vector<std::pair<std::string, Conformance>>& conformance_checks();

/// `count` collectives in an order drawn from `seed`.
void mixed_collectives(Group& group, int count, std::uint64_t seed);

/// All-reduce of 64 MiB, of an ordinary tensor and of one that is allocated by
/// the group.
void large_all_reduce(Group& group);

/// The same in two types, and every other operation with 64 MiB.
void large_collectives(Group& group);

/// Sums of random numbers: equal to the last bit to those of a loop over ranks,
/// whoever comes first. Gloo promises no such thing.
void sums_in_rank_order(Group& group);

}  // namespace accelerate
