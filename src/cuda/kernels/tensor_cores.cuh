// SPDX-License-Identifier: Apache-2.0
// Products of small tiles by one warp: m16n8k16 in bf16 or fp16, sums in fp32.
//
// Of a tile of sums, [16, 8], lane l has columns 2 (l % 4) and the next of rows
// l / 4 (`at[0]`, `at[1]`) and l / 4 + 8. Two such tiles side by side, rounded,
// are the left factor of a next product ([16, 16]) as they lie.
#pragma once

#include "cuda/kernels/common.cuh"

namespace accelerate::cuda::kernels {

struct Sums16x8 {
  float at[4];
};
struct Left16x16 {
  unsigned at[4];
};
struct Right16x8 {
  unsigned at[2];
};

/// Values of T in shared memory, rows padded by 16 bytes so that eight rows
/// lie in different banks.
template <typename T, int kColumns>
struct Tile {
  static constexpr int kStride = kColumns + 8;
  T* data;
  __device__ T* at(int row, int column) const {
    return data + row * kStride + column;
  }
};

template <typename T, int kColumns>
constexpr int tile_bytes(int rows) {
  return rows * Tile<T, kColumns>::kStride * static_cast<int>(sizeof(T));
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Four blocks of 8 x 8; lane l names row l % 8 of block l / 8.
__device__ __forceinline__ void load_blocks(
    unsigned (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(from))
               : "memory");
}
__device__ __forceinline__ void load_blocks_transposed(
    unsigned (&to)[4], const void* from) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(shared_address(from))
      : "memory");
}

/// The left factor at (row, column) of a tile.
template <typename T, int kColumns>
__device__ __forceinline__ Left16x16
load_left(const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Left16x16 left;
  load_blocks(
      left.at,
      tile.at(row + lane % 8 + lane / 8 % 2 * 8, column + lane / 16 * 8));
  return left;
}

/// The same of the transposed tile, whose (row, column) lies at (column, row).
template <typename T, int kColumns>
__device__ __forceinline__ Left16x16
load_left_transposed(const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Left16x16 left;
  load_blocks_transposed(
      left.at,
      tile.at(column + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8));
  return left;
}

/// Two right factors, [16, 8] each, side by side at (row, column).
template <typename T, int kColumns>
__device__ __forceinline__ void load_rights(
    Right16x8 (&right)[2], const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  unsigned blocks[4];
  load_blocks_transposed(
      blocks,
      tile.at(row + lane % 8 + lane / 8 % 2 * 8, column + lane / 16 * 8));
  right[0] = {{blocks[0], blocks[1]}};
  right[1] = {{blocks[2], blocks[3]}};
}

/// The same of the transposed tile.
template <typename T, int kColumns>
__device__ __forceinline__ void load_rights_transposed(
    Right16x8 (&right)[2], const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  unsigned blocks[4];
  load_blocks(
      blocks,
      tile.at(column + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8));
  right[0] = {{blocks[0], blocks[1]}};
  right[1] = {{blocks[2], blocks[3]}};
}

template <typename T>
__device__ __forceinline__ void multiply_add(
    Sums16x8& sums, const Left16x16& a, const Right16x8& b) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums.at[0]), "+f"(sums.at[1]), "+f"(sums.at[2]), "+f"(sums.at[3])
        : "r"(a.at[0]),
          "r"(a.at[1]),
          "r"(a.at[2]),
          "r"(a.at[3]),
          "r"(b.at[0]),
          "r"(b.at[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums.at[0]), "+f"(sums.at[1]), "+f"(sums.at[2]), "+f"(sums.at[3])
        : "r"(a.at[0]),
          "r"(a.at[1]),
          "r"(a.at[2]),
          "r"(a.at[3]),
          "r"(b.at[0]),
          "r"(b.at[1]));
  }
}

/// Two tiles of sums side by side as a left factor.
template <typename T>
__device__ __forceinline__ Left16x16
as_left(const Sums16x8& first, const Sums16x8& second) {
  T* const type = nullptr;
  return {
      {pair_bits(first.at[0], first.at[1], type),
       pair_bits(first.at[2], first.at[3], type),
       pair_bits(second.at[0], second.at[1], type),
       pair_bits(second.at[2], second.at[3], type)}};
}

/// Rounds a tile of sums into shared memory at (row, column).
template <typename T, int kColumns>
__device__ __forceinline__ void store_sums(
    const Tile<T, kColumns>& tile, int row, int column, const Sums16x8& sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  T* const to = tile.at(row + lane / 4, column + lane % 4 * 2);
  *reinterpret_cast<unsigned*>(to) = pair_bits(sums.at[0], sums.at[1], to);
  T* const below = to + 8 * Tile<T, kColumns>::kStride;
  *reinterpret_cast<unsigned*>(below) =
      pair_bits(sums.at[2], sums.at[3], below);
}

/// Sixteen bytes on their way into shared memory; zeros unless `is_there`.
__device__ __forceinline__ void copy_async(
    void* to, const void* from, bool is_there) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
      "l"(from),
      "r"(is_there ? 16 : 0)
      : "memory");
}
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace accelerate::cuda::kernels
