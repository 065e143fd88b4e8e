// SPDX-License-Identifier: Apache-2.0
// Sums over rows, made while the rows are worked on.
//
// A block takes a strip of columns, eight neighbours a thread, and goes down
// it with eight lines of threads. What its threads have summed up is one part
// of the whole; `column_sum_parts` adds the parts.
#pragma once

#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/common.cuh"

namespace accelerate::cuda::kernels {

constexpr int kStripThreads = 32;
constexpr int kStripLines = 8;
constexpr int kStripBlock = kStripThreads * kStripLines;
constexpr std::int64_t kStripWidth = kStripThreads * kVector;
/// Blocks that fit on a processor with the registers that such work takes.
constexpr int kStripsAtOnce = 4;

inline dim3 strip_grid(std::int64_t rows, std::int64_t width) {
  return {
      static_cast<unsigned>(ceil_div(width, kStripWidth)),
      static_cast<unsigned>(column_parts(rows, width))};
}
inline dim3 strip_block() {
  return {kStripThreads, kStripLines};
}

/// Where a thread begins, and how far it is to its next row.
struct Strip {
  std::int64_t column, row, step;

  __device__ Strip()
      : column(blockIdx.x * kStripWidth + threadIdx.x * kVector),
        row(static_cast<std::int64_t>(blockIdx.y) * kStripLines + threadIdx.y),
        step(static_cast<std::int64_t>(gridDim.y) * kStripLines) {}
};

/// Calls f(row, values) for each row of a thread's eight columns, `stride`
/// apart and aligned. Several are on their way at once.
template <int kAhead, typename T, typename F>
__device__ __forceinline__ void walk(
    const Strip& strip,
    const T* columns,
    std::int64_t stride,
    std::int64_t rows,
    F f) {
  for (std::int64_t i = strip.row; i < rows; i += kAhead * strip.step) {
    Packed8<T> ahead[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const std::int64_t row = i + n * strip.step;
      if (row < rows) {
        ahead[n] = load_packed(columns + row * stride);
      }
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const std::int64_t row = i + n * strip.step;
      if (row < rows) {
        f(row, unpack(ahead[n]));
      }
    }
  }
}

/// Writes the sums of a block's lines into its row of `partial`, [parts, D].
__device__ __forceinline__ void write_strip(
    const Strip& strip,
    const Float8& sum,
    std::int64_t width,
    float* partial) {
  static_assert(kStripLines == kVector);  // A line folds a place of the eight.
  __shared__ float folded[kStripLines][kVector][kStripThreads];
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    folded[threadIdx.y][k][threadIdx.x] = sum.at[k];
  }
  __syncthreads();
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kStripLines; ++i) {
    total += folded[i][threadIdx.y][threadIdx.x];
  }
  if (strip.column + threadIdx.y < width) {
    partial[blockIdx.y * width + strip.column + threadIdx.y] = total;
  }
}

}  // namespace accelerate::cuda::kernels
