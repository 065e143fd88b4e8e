// SPDX-License-Identifier: Apache-2.0
// What a rank says about the collective it is in, and whether all say the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate {

struct TensorRecord {
  at::ScalarType type;
  std::vector<std::int64_t> sizes;
};

/// One rank's view of a collective call.
struct CallRecord {
  std::string operation;
  std::uint64_t sequence = 0;
  /// Arguments that must be equal, as a reader would write them.
  std::string arguments;
  std::vector<TensorRecord> tensors;

  std::string encode() const;
  /// Throws `InternalError` when `text` is not what `encode` makes.
  static CallRecord decode(const std::string& text);
  /// "gather #5 of Float[8, 128]"
  std::string describe() const;
};

/// Throws `MismatchError` with a table unless all records fit together:
/// everything equal, except the size of dimension `free_dim` of each tensor.
void check_agreement(
    const std::vector<CallRecord>& records,
    std::optional<std::int64_t> free_dim = std::nullopt);

}  // namespace accelerate
