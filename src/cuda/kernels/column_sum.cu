// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/kernels/strips.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kColumns = 32;
constexpr int kLines = 16;

// A thread block sums 32 columns. The parts are divided among 16 lines of
// threads, whose sums are then reduced.
__global__ void __launch_bounds__(kColumns* kLines) reduce_partial_sums_kernel(
    const float* __restrict__ partial,
    std::int64_t parts,
    std::int64_t row,
    std::int64_t width,
    const ColumnSums sums) {
  __shared__ float folded[kLines][kColumns];
  float* const out = sums.out[blockIdx.y];
  if (out == nullptr) {
    return;
  }
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0.0F;
  if (column < width) {
    const float* from = partial + blockIdx.y * width + column;
#pragma unroll 8
    for (std::int64_t i = threadIdx.y; i < parts; i += kLines) {
      sum += from[i * row];
    }
  }
  folded[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < width) {
    for (int i = 1; i < kLines; ++i) {
      sum += folded[i][threadIdx.x];
    }
    out[column] = sum;
  }
}

template <typename T>
__global__ void __launch_bounds__(kStripBlock) column_sum_kernel(
    const T* __restrict__ x,
    std::int64_t rows,
    std::int64_t width,
    std::int64_t stride,
    bool is_aligned_x,
    float* __restrict__ partial) {
  const Strip strip;
  Floats8 sum = {};
  if (is_aligned_x && strip.column + kVector <= width) {
    for_each_row<8>(
        strip,
        x + strip.column,
        stride,
        rows,
        [&](std::int64_t, const Floats8& values) { add(sum, values); });
  } else {
    for (std::int64_t i = strip.row; i < rows; i += strip.step) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        if (strip.column + k < width) {
          sum.at[k] += to_float(x[i * stride + strip.column + k]);
        }
      }
    }
  }
  write_strip(strip, sum, width, partial);
}

}  // namespace

std::int64_t column_parts(std::int64_t rows, std::int64_t width) {
  const std::int64_t strips = ceil_div(width, kStripWidth);
  const std::int64_t wanted =
      grid_of(1 << 20, kStripBlocksPerSm) / std::max<std::int64_t>(strips, 1);
  const std::int64_t max_parts = ceil_div(rows, 2 * kStripLines);
  return std::clamp<std::int64_t>(std::min(wanted, max_parts), 1, 256);
}

std::int64_t column_sum_workspace(std::int64_t rows, std::int64_t width) {
  return column_parts(rows, width) * width;
}

void reduce_partial_sums(
    const float* partial,
    std::int64_t parts,
    int slices,
    std::int64_t width,
    const ColumnSums& sums,
    cudaStream_t stream) {
  if (width == 0) {
    return;
  }
  const dim3 grid(
      static_cast<unsigned>(ceil_div(width, kColumns)),
      static_cast<unsigned>(slices));
  reduce_partial_sums_kernel<<<grid, dim3(kColumns, kLines), 0, stream>>>(
      partial, parts, slices * width, width, sums);
}

void column_sum(
    Type type,
    const void* x,
    std::int64_t rows,
    std::int64_t width,
    std::int64_t stride,
    float* out,
    float* workspace,
    cudaStream_t stream) {
  if (rows > 0 && width > 0) {
    with_type(type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      column_sum_kernel<T>
          <<<strip_grid(rows, width), strip_block(), 0, stream>>>(
              static_cast<const T*>(x),
              rows,
              width,
              stride,
              is_aligned(x) && stride % kVector == 0,
              workspace);
    });
  }
  finish_column_sum(rows, width, workspace, out, stream);
}

void finish_column_sum(
    std::int64_t rows,
    std::int64_t width,
    const float* workspace,
    float* out,
    cudaStream_t stream) {
  const std::int64_t parts = rows == 0 ? 0 : column_parts(rows, width);
  reduce_partial_sums(workspace, parts, 1, width, {{out}}, stream);
}

}  // namespace accelerate::cuda::kernels
