// SPDX-License-Identifier: Apache-2.0
// Helpers for the forward and backward of short attention. A thread block
// handles one head of one sequence with eight warps; each warp handles sixteen
// tokens.
#pragma once

#include <algorithm>

#include "cuda/kernels/short_attention.h"
#include "cuda/kernels/tensor_cores.cuh"

namespace accelerate::cuda::kernels {

constexpr int kTokens = static_cast<int>(kShortTokens);
constexpr int kBlock = kTokens / 16 * kWarp;
constexpr float kLog2E = 1.4426950408889634F;

/// The sequence and the head that a thread block handles.
struct HeadOfSequence {
  std::int64_t begin;  // The row of the sequence's first token.
  int length;
  int sequence;
  int head;

  __device__ explicit HeadOfSequence(const ShortAttention& w)
      : sequence(static_cast<int>(blockIdx.x) / w.heads),
        head(static_cast<int>(blockIdx.x) % w.heads) {
    if (w.sequence_offsets != nullptr) {
      begin = w.sequence_offsets[sequence];
      length =
          min(w.sequence_offsets[sequence + 1] - w.sequence_offsets[sequence],
              kTokens);
    } else {
      begin = sequence * w.tokens;
      length = static_cast<int>(w.tokens);
    }
  }
};

__device__ __forceinline__ int warp_index() {
  return static_cast<int>(threadIdx.x) / kWarp;
}
__device__ __forceinline__ int lane_index() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Loads one head, `length` rows, into a tile. Adds rows of zeros up to the
/// next multiple of 16 rows.
template <typename T, int kHead>
__device__ __forceinline__ void load_head(
    const Tile<T, kHead>& to, const T* from, std::int64_t stride, int length) {
  constexpr int kPieces = kHead / kVector;
  const int rows = (length + 15) / 16 * 16;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces; i += kBlock) {
    const int row = i / kPieces;
    const int column = i % kPieces * kVector;
    const bool in_range = row < length;
    copy_async(
        to.at(row, column),
        from + (in_range ? row : 0) * stride + column,
        in_range);
  }
}

/// Copies sixteen rows of `kColumns` columns from a tile to global memory. This
/// warp must have stored these rows in the tile. Rows from `length` on are not
/// copied.
template <int kColumns, typename T, int kHead>
__device__ __forceinline__ void write_rows(
    const Tile<T, kHead>& from,
    int row,
    int column,
    T* to,
    std::int64_t stride,
    int length) {
  constexpr int kPieces = kColumns / kVector;
  __syncwarp();
  for (int i = lane_index(); i < 16 * kPieces; i += kWarp) {
    const int r = row + i / kPieces;
    const int c = column + i % kPieces * kVector;
    if (r < length) {
      *reinterpret_cast<uint4*>(to + r * stride + c) =
          *reinterpret_cast<const uint4*>(from.at(r, c));
    }
  }
}

/// Loads the bias for the score of each key, multiplied by log2(e). For keys
/// beyond the end of the sequence, the bias is -inf.
template <typename T>
__device__ __forceinline__ void load_key_bias(
    const ShortAttention& w, const HeadOfSequence& at, float* key_bias) {
  for (int i = static_cast<int>(threadIdx.x); i < kTokens; i += kBlock) {
    float bias = i < at.length ? 0.0F : -INFINITY;
    if (w.key_bias != nullptr && i < at.length) {
      bias = kLog2E * to_float(static_cast<const T*>(
                          w.key_bias)[at.sequence * w.key_bias_stride + i]);
    }
    key_bias[i] = bias;
  }
}

/// Returns the index of the group of eight random numbers with which this lane
/// applies dropout to its eight attention weights in a tile of sixteen queries
/// by sixteen keys. `query_part` and `key_part` are the indices of the tile.
__device__ __forceinline__ std::uint64_t mask_group(
    const ShortAttention& w,
    const HeadOfSequence& at,
    int query_part,
    int key_part) {
  const std::uint64_t head =
      static_cast<std::uint64_t>(at.sequence) * static_cast<unsigned>(w.heads) +
      static_cast<unsigned>(at.head);
  return ((head * 8 + static_cast<unsigned>(query_part)) * 8 +
          static_cast<unsigned>(key_part)) *
             kWarp +
         static_cast<unsigned>(lane_index());
}

/// Calls `f` with a null `T*`, where T is the element type, and with the number
/// of channels per head as a compile-time constant. Returns an error if no
/// kernel supports the type and the sizes.
template <typename F>
cudaError_t with_head(const ShortAttention& w, F f) {
  if (!supports_short_attention(w.type, w.tokens, w.head_dim)) {
    return cudaErrorInvalidValue;
  }
  if (w.sequences == 0 || w.tokens == 0 || w.heads == 0) {
    return cudaSuccess;
  }
  const auto with_head_dim = [&](auto* type) {
    return w.head_dim == 64 ? f(type, std::integral_constant<int, 64>())
                            : f(type, std::integral_constant<int, 32>());
  };
  return w.type == Type::f16
             ? with_head_dim(static_cast<__half*>(nullptr))
             : with_head_dim(static_cast<__nv_bfloat16*>(nullptr));
}

/// Launches a kernel, with one thread block for each head of each sequence.
/// Raises the kernel's limit for shared memory to `shared_bytes`.
template <typename Kernel, typename... Arguments>
cudaError_t launch_heads(
    Kernel kernel,
    const ShortAttention& w,
    int shared_bytes,
    cudaStream_t stream,
    Arguments... arguments) {
  const cudaError_t allowed = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (allowed != cudaSuccess) {
    return allowed;
  }
  const auto blocks = static_cast<unsigned>(w.sequences * w.heads);
  kernel<<<blocks, kBlock, static_cast<std::size_t>(shared_bytes), stream>>>(
      w, arguments...);
  return cudaGetLastError();
}

}  // namespace accelerate::cuda::kernels
