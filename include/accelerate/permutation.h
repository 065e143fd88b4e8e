// SPDX-License-Identifier: Apache-2.0
// A shuffled order without a table.
//
//     const accelerate::Permutation order(10'000'000'000, {seed, epoch});
//     const auto index = order(1'000'000'000);  // at once, wherever it is
#pragma once

#include <array>
#include <cstdint>

#include "accelerate/export.h"

namespace accelerate {

/// What an order depends on; equal keys give equal orders on every host.
struct OrderKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

/// A pseudo-random permutation of 0 … size-1.
///
/// A Feistel network over the smallest power of two that holds `size` (at
/// least 2^10, since few bits mix badly), applied again while its result lies
/// outside. Not cryptographic.
///
/// Thread safety: any number of threads.
class ACCELERATE_API Permutation {
 public:
  /// Throws `ArgumentError` unless 0 ≤ `size` ≤ 2^62.
  Permutation(std::int64_t size, const OrderKey& key);

  std::int64_t size() const { return size_; }
  /// The index at `position`, 0 ≤ `position` < `size()`.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t shuffle(std::uint64_t value) const;

  std::int64_t size_;
  int left_bits_;
  int right_bits_;
  std::array<std::uint64_t, 6> keys_;
};

}  // namespace accelerate
