// SPDX-License-Identifier: Apache-2.0
// A state whose ranges can be divided among ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "accelerate/group.h"
#include "accelerate/tensor_map.h"
#include "checkpoint/contents.h"
#include "checkpoint/reader.h"

namespace accelerate {

/// Tensors of several types. One tensor has a single element, and one has no
/// elements.
inline TensorMap whole_state() {
  return {
      {"a.exp_avg", at::arange(3000, at::kFloat).view({1000, 3})},
      {"b.exp_avg", at::arange(777, at::kDouble)},
      {"c.step", at::scalar_tensor(7, at::kLong)},
      {"d.none", at::empty({0, 4})},
      {"e.mask", at::arange(64).to(at::kByte).view({8, 8})}};
}

inline TensorRange range_of(
    const TensorMap& state,
    const std::string& name,
    const std::int64_t first,
    const std::int64_t last) {
  const at::Tensor& whole = state.at(name);
  return {
      .name = name,
      .shape = whole.sizes().vec(),
      .offset = first,
      .values = whole.reshape({-1}).slice(0, first, last)};
}

/// Divides each tensor into `parts` parts and returns part number `part` of
/// each. Some parts of small tensors are empty.
inline std::vector<TensorRange> equal_parts(
    const TensorMap& state, const int part, const int parts) {
  std::vector<TensorRange> ranges;
  for (const auto& [name, tensor] : state) {
    ranges.push_back(range_of(
        state,
        name,
        tensor.numel() * part / parts,
        tensor.numel() * (part + 1) / parts));
  }
  return ranges;
}

/// Divides each saved tensor into `parts` parts and requests part number `part`
/// of each.
inline std::vector<RangeRequest> request_parts(
    const std::map<std::string, TensorType>& saved, int part, int parts) {
  std::vector<RangeRequest> requests;
  for (const auto& [name, type] : saved) {
    const std::int64_t elements = c10::multiply_integers(type.shape);
    const std::int64_t first = elements * part / parts;
    requests.push_back({name, first, elements * (part + 1) / parts - first});
  }
  return requests;
}

/// Returns the contents that a rank with these ranges in `optimizer` saves.
inline CheckpointContents contents_of(
    const Group& group, std::vector<TensorRange> ranges) {
  CheckpointContents contents;
  contents.process_index = group.rank();
  contents.num_processes = group.size();
  contents.rank_state["x"] = at::ones({1});
  contents.ranges["optimizer"] = std::move(ranges);
  return contents;
}

}  // namespace accelerate
