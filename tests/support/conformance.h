// SPDX-License-Identifier: Apache-2.0
// The checks that every backend must pass. The checks compare the backend's
// results with the results of a plain implementation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/group.h"

namespace accelerate {

/// Checks one group. Throws a `std::runtime_error` that describes the
/// difference if a result is wrong.
using Conformance = std::function<void(Group&)>;

/// Returns a name and a check for each operation of `c10d::Backend`. The checks
/// use all types and awkward sizes.
const std::vector<std::pair<std::string, Conformance>>& conformance_checks();

/// Runs `count` collectives in a random order that `seed` determines.
void mixed_collectives(Group& group, int count, std::uint64_t seed);

/// All-reduces 64 MiB, in an ordinary tensor and in a tensor allocated by the
/// group.
void large_all_reduce(Group& group);

/// Runs every operation with 64 MiB: all-reduce like `large_all_reduce`, but in
/// fp32 and in bf16; the other operations in fp32.
void large_collectives(Group& group);

/// Checks that sums of random numbers are bit for bit equal to the sums that a
/// loop over ranks computes, regardless of which rank arrives first. Gloo does
/// not guarantee this.
void sums_in_rank_order(Group& group);

}  // namespace accelerate
