// SPDX-License-Identifier: Apache-2.0
// Decides which rank writes which range of a checkpoint.
#pragma once

#include <vector>

#include "accelerate/json.h"
#include "checkpoint/parts.h"

namespace accelerate {

/// Returns the `own` ranges of each key in `part.ranges`, for `assign_ranges`.
/// Other ranks need these ranges and cannot compute them.
Json range_table(const Part& part);

/// Turns the ranges of `part` into files. `tables` has the `range_table` of
/// each rank that writes the checkpoint, and `rank` is the index of this rank
/// in `tables`. Of several ranks that list the same range, the rank with the
/// fewest bytes so far writes it. Rank 0 also writes the shapes of all tensors.
/// Every rank computes the same assignment.
///
/// Throws `StateError` unless the ranges of all ranks together cover each
/// tensor exactly once, and all ranks give the tensor the same type and shape.
/// The error names the tensor, the ranks and their ranges.
Part assign_ranges(Part part, const std::vector<Json>& tables, int rank);

}  // namespace accelerate
