// SPDX-License-Identifier: Apache-2.0
// Copies single numbers from anywhere in device memory to host memory.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

enum class NumberType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u8  ///< Also for booleans.
};

/// The numbers that one kernel launch copies.
struct Numbers {
  static constexpr int kMax = 64;
  int count = 0;
  const void* from[kMax] = {};
  NumberType types[kMax] = {};
};

/// Writes number i to `to[i]`: as the bits of an fp64 if it is a floating-point
/// number, and as a 64-bit integer otherwise. `to` must be pinned host memory.
void copy_numbers(
    const Numbers& numbers, std::int64_t* to, cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
