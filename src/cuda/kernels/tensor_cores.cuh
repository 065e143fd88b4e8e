// SPDX-License-Identifier: Apache-2.0
// Matmuls of small tiles, each computed by one warp. They use MMA m16n8k16 in
// bf16 or fp16 with fp32 accumulators.
//
// An accumulator is a tile [16, 8]. Lane l holds its columns 2 (l % 4) and 2 (l
// % 4) + 1: in row l / 4 as `at[0]` and `at[1]`, and in row l / 4 + 8 as
// `at[2]` and `at[3]`. After rounding, two neighboring accumulators have the
// layout of an A fragment, [16, 16], for a following MMA.
#pragma once

#include "cuda/kernels/common.cuh"

namespace accelerate::cuda::kernels {

struct Accumulator {  // [16, 8]
  float at[4];
};
struct FragmentA {  // [16, 16]
  unsigned at[4];
};
struct FragmentB {  // [16, 8]
  unsigned at[2];
};

/// A tile of values of type T in shared memory. Each row is padded by 16 bytes,
/// so that eight consecutive rows use different banks.
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

// Loads four matrices of 8 x 8; lane l passes the address of row l % 8 of
// matrix l / 8.
__device__ __forceinline__ void ldmatrix(unsigned (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(from))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_transposed(
    unsigned (&to)[4], const void* from) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(shared_address(from))
      : "memory");
}

/// Loads the A fragment at (row, column) of a tile.
template <typename T, int kColumns>
__device__ __forceinline__ FragmentA
load_a(const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  FragmentA a;
  ldmatrix(
      a.at, tile.at(row + lane % 8 + lane / 8 % 2 * 8, column + lane / 16 * 8));
  return a;
}

/// Loads the A fragment at (row, column) of the transposed tile, which is at
/// (column, row) in the tile itself.
template <typename T, int kColumns>
__device__ __forceinline__ FragmentA
load_a_transposed(const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  FragmentA a;
  ldmatrix_transposed(
      a.at, tile.at(column + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8));
  return a;
}

/// Loads two neighboring B fragments at (row, column) of a tile.
template <typename T, int kColumns>
__device__ __forceinline__ void load_b_pair(
    FragmentB (&b)[2], const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  unsigned matrices[4];
  ldmatrix_transposed(
      matrices,
      tile.at(row + lane % 8 + lane / 8 % 2 * 8, column + lane / 16 * 8));
  b[0] = {{matrices[0], matrices[1]}};
  b[1] = {{matrices[2], matrices[3]}};
}

/// Loads two neighboring B fragments at (row, column) of the transposed tile.
template <typename T, int kColumns>
__device__ __forceinline__ void load_b_pair_transposed(
    FragmentB (&b)[2], const Tile<T, kColumns>& tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  unsigned matrices[4];
  ldmatrix(
      matrices,
      tile.at(column + lane % 8 + lane / 16 * 8, row + lane / 8 % 2 * 8));
  b[0] = {{matrices[0], matrices[1]}};
  b[1] = {{matrices[2], matrices[3]}};
}

template <typename T>
__device__ __forceinline__ void mma(
    Accumulator& sums, const FragmentA& a, const FragmentB& b) {
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

/// Rounds two neighboring accumulators and returns them as an A fragment.
template <typename T>
__device__ __forceinline__ FragmentA
as_fragment_a(const Accumulator& first, const Accumulator& second) {
  T* const type = nullptr;
  return {
      {pair_bits(first.at[0], first.at[1], type),
       pair_bits(first.at[2], first.at[3], type),
       pair_bits(second.at[0], second.at[1], type),
       pair_bits(second.at[2], second.at[3], type)}};
}

/// Rounds an accumulator and stores it at (row, column) of a tile.
template <typename T, int kColumns>
__device__ __forceinline__ void store_accumulator(
    const Tile<T, kColumns>& tile,
    int row,
    int column,
    const Accumulator& sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  T* const to = tile.at(row + lane / 4, column + lane % 4 * 2);
  *reinterpret_cast<unsigned*>(to) = pair_bits(sums.at[0], sums.at[1], to);
  T* const below = to + 8 * Tile<T, kColumns>::kStride;
  *reinterpret_cast<unsigned*>(below) =
      pair_bits(sums.at[2], sums.at[3], below);
}

/// Copies sixteen bytes to shared memory asynchronously. If `in_range` is
/// false, writes zeros instead.
__device__ __forceinline__ void copy_async(
    void* to, const void* from, bool in_range) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
      "l"(from),
      "r"(in_range ? 16 : 0)
      : "memory");
}
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace accelerate::cuda::kernels
