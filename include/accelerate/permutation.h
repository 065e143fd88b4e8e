// SPDX-License-Identifier: Apache-2.0
// A random order of indices that is computed on the fly, without a table.
//
//     const accelerate::Permutation order(10'000'000'000, {seed, epoch});
//     const auto index = order(1'000'000'000);  // constant time
#pragma once

#include <array>
#include <cstdint>

#include "accelerate/export.h"

namespace accelerate {

/// The key of a random order; equal keys give the same order on every machine.
struct OrderKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

/// A pseudo-random permutation of 0 … size-1.
///
/// A Feistel network over 0 … 2^n-1 with the smallest n for which 2^n is at
/// least `size` (but n is at least 10, because a smaller network mixes poorly).
/// The network is applied repeatedly until its result is below `size`. Not
/// cryptographically secure.
///
/// Thread safety: several threads may use a permutation at once.
class ACCELERATE_API Permutation {
 public:
  /// Throws `ArgumentError` unless 0 ≤ `size` ≤ 2^62.
  Permutation(std::int64_t size, const OrderKey& key);

  std::int64_t size() const { return size_; }
  /// Returns the index at `position`. Requires 0 ≤ `position` < `size()`.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t shuffle(std::uint64_t value) const;

  std::int64_t size_;
  int left_bits_;
  int right_bits_;
  std::array<std::uint64_t, 6> keys_;
};

}  // namespace accelerate
