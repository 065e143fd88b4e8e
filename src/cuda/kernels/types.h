// SPDX-License-Identifier: Apache-2.0
// Types that all launch functions in this folder use.
//
// A launch function queues kernels on a stream and returns. It never waits and
// never allocates memory, and its work can be captured into a CUDA graph. If a
// size is zero, it launches nothing. Names of sizes: N rows, D width.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace accelerate::cuda::kernels {

/// The storage type of activations. All arithmetic is in fp32.
enum class Type { f32, f16, bf16 };

/// The source of random bits: LibTorch's seed and offset. They are stored in
/// this struct or, inside a captured graph, in device memory. The same seed and
/// offset always give the same dropout mask. Therefore, backward can draw the
/// mask again, and forward does not need to save it.
struct Random {
  const std::int64_t* seed_at = nullptr;  ///< If null, `seed` is used.
  const std::int64_t* offset_at = nullptr;
  std::uint64_t seed = 0;
  /// If `offset_at` is not null, this value is added to `*offset_at`.
  std::uint64_t offset = 0;
};

/// A dropout rate and its random bits. A rate of 0 means no dropout. Rates are
/// rounded to multiples of 2^-16.
struct Dropout {
  float rate = 0.0F;
  Random random;
};

}  // namespace accelerate::cuda::kernels
