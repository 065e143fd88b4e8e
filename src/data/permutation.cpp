// SPDX-License-Identifier: Apache-2.0
#include "accelerate/permutation.h"

#include <algorithm>
#include <bit>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "data/mix.h"

namespace accelerate {
namespace {

constexpr int kLeastBits = 10;
constexpr std::int64_t kLargest = std::int64_t{1} << 62;

std::uint64_t low_bits(std::uint64_t value, int bits) {
  return value & ((std::uint64_t{1} << bits) - 1);
}

}  // namespace

Permutation::Permutation(std::int64_t size, const OrderKey& key) : size_(size) {
  if (size < 0 || size > kLargest) {
    throw ArgumentError(
        str_cat("cannot make a permutation of ", size, " elements"),
        "pass a size from 0 to 2^62");
  }
  const auto last =
      static_cast<std::uint64_t>(std::max<std::int64_t>(size - 1, 0));
  const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(last)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  std::uint64_t state = mix(key.seed, key.epoch);
  for (std::uint64_t& round : keys_) {
    state = mix(state);
    round = state;
  }
}

// The halves may differ in length by one bit, so the rounds change them
// alternately.
std::uint64_t Permutation::shuffle(std::uint64_t value) const {
  std::uint64_t left = value >> right_bits_;
  std::uint64_t right = low_bits(value, right_bits_);
  for (std::size_t round = 0; round < keys_.size(); round += 2) {
    left ^= low_bits(mix(right ^ keys_[round]), left_bits_);
    right ^= low_bits(mix(left ^ keys_[round + 1]), right_bits_);
  }
  return left << right_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  if (position < 0 || position >= size_) {
    throw ArgumentError(
        str_cat(
            "position ",
            position,
            " is outside a permutation of ",
            size_,
            " elements"),
        "pass a position from 0 to size - 1");
  }
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = shuffle(value);
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace accelerate
