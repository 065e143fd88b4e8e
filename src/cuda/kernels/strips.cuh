// SPDX-License-Identifier: Apache-2.0
// Column sums that are computed while a kernel processes the rows.
//
// A thread block processes a strip of columns from top to bottom, with eight
// lines of threads. Each thread handles eight neighboring columns. Each thread
// block writes one partial sum for each column; `finish_column_sum` adds up the
// partial sums.
#pragma once

#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/common.cuh"

namespace accelerate::cuda::kernels {

constexpr int kStripThreads = 32;
constexpr int kStripLines = 8;
constexpr int kStripBlock = kStripThreads * kStripLines;
constexpr std::int64_t kStripWidth = kStripThreads * kVector;
/// The number of thread blocks that fit on an SM, limited by the registers that
/// kernels with strips use.
constexpr int kStripBlocksPerSm = 4;

inline dim3 strip_grid(std::int64_t rows, std::int64_t width) {
  return {
      static_cast<unsigned>(ceil_div(width, kStripWidth)),
      static_cast<unsigned>(column_parts(rows, width))};
}
inline dim3 strip_block() {
  return {kStripThreads, kStripLines};
}

/// The first column and the first row that a thread handles, and the distance
/// from one row to the next row that it handles.
struct Strip {
  std::int64_t column, row, step;

  __device__ Strip()
      : column(blockIdx.x * kStripWidth + threadIdx.x * kVector),
        row(static_cast<std::int64_t>(blockIdx.y) * kStripLines + threadIdx.y),
        step(static_cast<std::int64_t>(gridDim.y) * kStripLines) {}
};

/// Calls f(row, values) for each row that a thread handles, with the values in
/// its eight columns. `columns` points to these columns in row 0, and `stride`
/// is the number of elements from one row to the next. Rows must be aligned to
/// 16 bytes. Prefetches `kPrefetch` rows at a time.
template <int kPrefetch, typename T, typename F>
__device__ __forceinline__ void for_each_row(
    const Strip& strip,
    const T* columns,
    std::int64_t stride,
    std::int64_t rows,
    F f) {
  for (std::int64_t i = strip.row; i < rows; i += kPrefetch * strip.step) {
    Packed8<T> prefetched[kPrefetch];
#pragma unroll
    for (int n = 0; n < kPrefetch; ++n) {
      const std::int64_t row = i + n * strip.step;
      if (row < rows) {
        prefetched[n] = load_packed(columns + row * stride);
      }
    }
#pragma unroll
    for (int n = 0; n < kPrefetch; ++n) {
      const std::int64_t row = i + n * strip.step;
      if (row < rows) {
        f(row, unpack(prefetched[n]));
      }
    }
  }
}

/// Adds up the sums of all lines in a thread block, and writes the result to
/// the block's row of `partial`, [parts, D].
__device__ __forceinline__ void write_strip(
    const Strip& strip,
    const Floats8& sum,
    std::int64_t width,
    float* partial) {
  static_assert(kStripLines == kVector);  // Each line reduces one of 8 columns.
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
