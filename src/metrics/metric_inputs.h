// SPDX-License-Identifier: Apache-2.0
// Checks the inputs of metrics and moves them to the CPU.
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

/// Returns predictions and references as flat, contiguous int64 tensors on the
/// CPU. Unless both tensors have the same shape and contain integers or
/// booleans, throws an `ArgumentError` that names the metric.
Inputs class_inputs(
    std::string_view metric,
    const at::Tensor& predictions,
    const at::Tensor& references);

/// Like `class_inputs`, but accepts real numbers of any type and returns
/// tensors of doubles.
Inputs number_inputs(
    std::string_view metric,
    const at::Tensor& predictions,
    const at::Tensor& references);

/// Gathers the state of each process, in rank order. Collective.
std::vector<Json> gather_states(const Group& group, Json local_state);

/// Throws a `StateError` that names the metric if the metric got fewer than
/// `min` rows. `count` is the number of rows that the metric got.
void check_min_count(
    std::string_view metric, std::int64_t count, std::int64_t min = 1);

}  // namespace accelerate::metrics
