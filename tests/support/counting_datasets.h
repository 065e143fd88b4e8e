// SPDX-License-Identifier: Apache-2.0
// Datasets whose samples are their indices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate {

struct Counting {
  std::int64_t n = 0;

  std::int64_t size() const { return n; }
  std::int64_t get(std::int64_t index) const { return index; }
};

struct CountingStream {
  std::int64_t n = 0;
  std::int64_t next_index = 0;

  std::optional<std::int64_t> next() {
    return next_index < n ? std::optional(next_index++) : std::nullopt;
  }
  void reset() { next_index = 0; }
};

inline std::vector<std::int64_t> to_indices(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().view({-1});
  const auto* values = static_cast<const std::int64_t*>(flat.const_data_ptr());
  return {values, values + flat.numel()};
}

/// Returns the batches of one epoch of a loader over `Counting` or
/// `CountingStream`.
template <typename Loader>
std::vector<std::vector<std::int64_t>> read_all(Loader&& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  for (at::Tensor& batch : loader) {
    batches.push_back(to_indices(batch));
  }
  return batches;
}

inline std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace accelerate
