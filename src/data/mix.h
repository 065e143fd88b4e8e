// SPDX-License-Identifier: Apache-2.0
// Hashes integers to pseudo-random integers.
#pragma once

#include <cstdint>

namespace accelerate {

/// A bijection on 64-bit integers in which every input bit affects every output
/// bit (the finalizer of SplitMix64).
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Hashes two integers to one; the order of the arguments matters.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return mix(mix(a) ^ b);
}

}  // namespace accelerate
