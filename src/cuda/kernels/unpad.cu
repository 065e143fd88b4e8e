// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/unpad.h"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kBlock = 1024;

// Returns the sum of `value` over the earlier threads of the block.
__device__ int exclusive_sum(int value) {
  __shared__ int warp_sums[kBlock / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  int sum = value;
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, sum, offset);
    sum += lane >= offset ? other : 0;
  }
  if (lane == kWarp - 1) {
    warp_sums[warp] = sum;
  }
  __syncthreads();
  int before = sum - value;
  for (int i = 0; i < warp; ++i) {
    before += warp_sums[i];
  }
  return before;
}

// One thread block is enough for the few thousand tokens of a batch, and its
// scan covers all tokens.
__global__ void __launch_bounds__(kBlock)
    unpad_kernel(const __grid_constant__ Unpad w) {
  __shared__ int total;
  const std::int64_t size = w.batch * w.tokens;
  const std::int64_t share = ceil_div(size, kBlock);
  const std::int64_t begin = threadIdx.x * share;
  const std::int64_t end = min(begin + share, size);
  int count = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    count += w.is_real[i] ? 1 : 0;
  }
  int row = exclusive_sum(count);
  const int rows = static_cast<int>(w.rows);
  for (std::int64_t i = begin; i < end; ++i) {
    if (i % w.tokens == 0) {
      w.sequence_offsets[i / w.tokens] = min(row, rows);
    }
    const bool has_row = w.is_real[i] && row < rows;
    w.packed_rows[i] = has_row ? row : -1;
    if (has_row) {
      w.source_rows[row] = static_cast<int>(i);
    }
    row += w.is_real[i] ? 1 : 0;
  }
  if (threadIdx.x == kBlock - 1) {
    total = min(row, rows);
  }
  __syncthreads();
  for (int i = total + static_cast<int>(threadIdx.x); i < rows; i += kBlock) {
    w.source_rows[i] = -1;
  }
  for (int i = static_cast<int>(threadIdx.x); i <= w.spare_sequences;
       i += kBlock) {
    w.sequence_offsets[w.batch + i] =
        i == w.spare_sequences
            ? rows
            : min(total + i * static_cast<int>(w.max_length), rows);
  }
}

constexpr int kThreads = 256;

template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) take_rows_kernel(
    const T* __restrict__ from,
    const int* __restrict__ index,
    std::int64_t pieces,
    std::int64_t row_pieces,
    T* __restrict__ to) {
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < pieces;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const std::int64_t source = index[i / row_pieces];
    const std::int64_t at = (source * row_pieces + i % row_pieces) * kWidth;
    if constexpr (kWidth == kVector) {
      Packed8<T> piece = {};
      if (source >= 0) {
        piece = load_packed(from + at);
      }
      *reinterpret_cast<Packed8<T>*>(to + i * kVector) = piece;
    } else {
      to[i] = source >= 0 ? from[at] : from_float<T>(0.0F);
    }
  }
}

}  // namespace

void unpad(const Unpad& work, cudaStream_t stream) {
  unpad_kernel<<<1, kBlock, 0, stream>>>(work);
}

void take_rows(
    Type type,
    const void* from,
    const int* index,
    std::int64_t rows,
    std::int64_t width,
    void* to,
    cudaStream_t stream) {
  if (rows == 0 || width == 0) {
    return;
  }
  const bool is_vector =
      width % kVector == 0 && is_aligned(from) && is_aligned(to);
  const std::int64_t row_pieces = is_vector ? width / kVector : width;
  const std::int64_t pieces = rows * row_pieces;
  const int grid = grid_of(ceil_div(pieces, kThreads), 8);
  with_type(type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    const auto* const source = static_cast<const T*>(from);
    auto* const target = static_cast<T*>(to);
    if (is_vector) {
      take_rows_kernel<T, kVector><<<grid, kThreads, 0, stream>>>(
          source, index, pieces, row_pieces, target);
    } else {
      take_rows_kernel<T, 1><<<grid, kThreads, 0, stream>>>(
          source, index, pieces, row_pieces, target);
    }
  });
}

}  // namespace accelerate::cuda::kernels
