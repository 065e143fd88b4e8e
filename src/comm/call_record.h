// SPDX-License-Identifier: Apache-2.0
// Describes a collective call, to check that all ranks make the same call.
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

/// A collective call as one rank makes it.
struct CallRecord {
  std::string operation;
  std::uint64_t sequence = 0;
  /// The arguments that must be the same on every rank, as text for error
  /// messages.
  std::string arguments;
  std::vector<TensorRecord> tensors;
  /// Data for the other ranks, which may differ between ranks.
  std::string payload = {};

  std::string encode() const;
  /// Returns the record that `encode` converted to `text`. Throws
  /// `InternalError` unless `text` is the output of `encode`.
  static CallRecord decode(const std::string& text);
  /// Returns text such as "gather #5 of Float[8, 128]".
  std::string describe() const;
};

/// Throws `MismatchError` with a table unless all records are equal, apart from
/// their payloads. The sizes of the tensors in dimension `free_dim` may differ
/// too.
void check_agreement(
    const std::vector<CallRecord>& records,
    std::optional<std::int64_t> free_dim = std::nullopt);

}  // namespace accelerate
