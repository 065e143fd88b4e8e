// SPDX-License-Identifier: Apache-2.0
// What every launch function of this folder speaks of.
//
// A launch function queues work on a stream and returns; it never waits, never
// allocates and may be captured into a graph. Sizes of zero queue nothing.
// Names of sizes: N rows, D width.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace accelerate::cuda::kernels {

/// How activations are stored; arithmetic is in fp32 whatever this is.
enum class Type { f32, f16, bf16 };

/// Where random bits come from: LibTorch's (seed, offset) pair, by value or,
/// inside a captured graph, in device memory. Equal pairs give equal masks, so
/// that backward draws a mask again where forward would have had to keep it.
struct Random {
  const std::int64_t* seed_at = nullptr;  ///< Null: `seed` holds the value.
  const std::int64_t* offset_at = nullptr;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< Added to `*offset_at` where that is given.
};

/// Dropout with `rate` 0 is none; rates are rounded to multiples of 2^-16.
struct Dropout {
  float rate = 0.0F;
  Random random;
};

}  // namespace accelerate::cuda::kernels
