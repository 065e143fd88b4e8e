// SPDX-License-Identifier: Apache-2.0
// What both directions of short attention share. A block has one head of one
// sequence: eight warps with sixteen tokens each.
#pragma once

#include <algorithm>

#include "cuda/kernels/short_attention.h"
#include "cuda/kernels/tensor_cores.cuh"

namespace accelerate::cuda::kernels {

constexpr int kTokens = static_cast<int>(kShortTokens);
constexpr int kBlock = kTokens / 16 * kWarp;
constexpr float kLog2E = 1.4426950408889634F;

/// Where a block's sequence lies, and which head it has.
struct HeadOfSequence {
  std::int64_t begin;  // Row of its first token.
  int length;
  int sequence;
  int head;

  __device__ explicit HeadOfSequence(const ShortAttention& w)
      : sequence(static_cast<int>(blockIdx.x) / w.heads),
        head(static_cast<int>(blockIdx.x) % w.heads) {
    if (w.starts != nullptr) {
      begin = w.starts[sequence];
      length = min(w.starts[sequence + 1] - w.starts[sequence], kTokens);
    } else {
      begin = sequence * w.tokens;
      length = static_cast<int>(w.tokens);
    }
  }
};

__device__ __forceinline__ int warp_of_block() {
  return static_cast<int>(threadIdx.x) / kWarp;
}
__device__ __forceinline__ int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// One head of `length` rows into a tile, zeros up to the next multiple of 16.
template <typename T, int kHead>
__device__ __forceinline__ void load_head(
    const Tile<T, kHead>& to, const T* from, std::int64_t stride, int length) {
  constexpr int kPieces = kHead / kVector;
  const int rows = (length + 15) / 16 * 16;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces; i += kBlock) {
    const int row = i / kPieces;
    const int column = i % kPieces * kVector;
    const bool is_there = row < length;
    copy_async(
        to.at(row, column),
        from + (is_there ? row : 0) * stride + column,
        is_there);
  }
}

/// Sixteen rows of `kColumns` columns that this warp has put into a tile.
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
  for (int i = lane_of_warp(); i < 16 * kPieces; i += kWarp) {
    const int r = row + i / kPieces;
    const int c = column + i % kPieces * kVector;
    if (r < length) {
      *reinterpret_cast<uint4*>(to + r * stride + c) =
          *reinterpret_cast<const uint4*>(from.at(r, c));
    }
  }
}

/// What is added to the scores, for powers of two; hides what is not there.
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

/// Which eight numbers decide about the weights that a lane has of sixteen
/// queries and sixteen keys, the parts of that number.
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
         static_cast<unsigned>(lane_of_warp());
}

/// Calls `f` with null pointers of the type and of a head's width; an error
/// where there is no kernel.
template <typename F>
cudaError_t with_head(const ShortAttention& w, F f) {
  if (!can_be_short_attention(w.type, w.tokens, w.width)) {
    return cudaErrorInvalidValue;
  }
  if (w.sequences == 0 || w.tokens == 0 || w.heads == 0) {
    return cudaSuccess;
  }
  const auto with_width = [&](auto* type) {
    return w.width == 64 ? f(type, std::integral_constant<int, 64>())
                         : f(type, std::integral_constant<int, 32>());
  };
  return w.type == Type::f16 ? with_width(static_cast<__half*>(nullptr))
                             : with_width(static_cast<__nv_bfloat16*>(nullptr));
}

/// Starts a kernel that wants more shared memory than any may have.
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
