// SPDX-License-Identifier: Apache-2.0
// Numbers that look random, made from numbers that do not.
#pragma once

#include <cstdint>

namespace accelerate {

/// A bijection of 64-bit numbers in which every input bit reaches every output
/// bit (the finaliser of SplitMix64).
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// One number that depends on both, in this order.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return mix(mix(a) ^ b);
}

}  // namespace accelerate
