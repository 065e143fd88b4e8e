// SPDX-License-Identifier: Apache-2.0
// What metrics are given, checked and on the host.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

#include "accelerate/group.h"
#include "accelerate/json.h"

namespace accelerate::metrics {

struct Inputs {
  at::Tensor predictions;
  at::Tensor references;
};

/// Both flat, contiguous, on the CPU and int64. Throws `ArgumentError` naming
/// the metric unless they have one shape and hold integers or truth values.
Inputs class_inputs(
    std::string_view metric,
    const at::Tensor& predictions,
    const at::Tensor& references);

/// The same for numbers of any type, as doubles.
Inputs number_inputs(
    std::string_view metric,
    const at::Tensor& predictions,
    const at::Tensor& references);

/// What each process of the group holds, in the order of ranks. Collective.
std::vector<Json> states_of(const Group& group, Json mine);

/// Throws `StateError` when `count` is below `least`.
void check_enough(
    std::string_view metric, std::int64_t count, std::int64_t least = 1);

}  // namespace accelerate::metrics
