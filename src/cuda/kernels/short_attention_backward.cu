// SPDX-License-Identifier: Apache-2.0
// With P = softmax(S), P' = P where the mask keeps it, and D the sum over a
// row of d_out * out,
//     dV = P'^T d_out,  dS = P (mask d_out V^T - D),  dQ = dS K,  dK = dS^T Q.
// The warps first make P' and dS, 32 queries and 64 keys each, and leave them
// in shared memory; from there they make the three gradients, 32 rows and half
// of the columns each.
#include "cuda/kernels/short_attention.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kQueries = 32;  // Of a warp.
constexpr int kKeys = 64;
constexpr int kKeyParts = kKeys / 16;

template <typename T, int kHead>
struct Tiles {
  using HeadTile = Tile<T, kHead>;
  using WeightTile = Tile<T, kTokens>;
  HeadTile q, k, v, d_out;
  WeightTile weights, d_scores;

  __device__ explicit Tiles(void* memory) {
    T* next = static_cast<T*>(memory);
    for (HeadTile* one : {&q, &k, &v, &d_out}) {
      one->data = next;
      next += kTokens * HeadTile::kStride;
    }
    weights.data = next;
    d_scores.data = next + kTokens * WeightTile::kStride;
  }
  static constexpr int kBytes =
      4 * tile_bytes<T, kHead>(kTokens) + 2 * tile_bytes<T, kTokens>(kTokens);
};

struct Rows {
  float key_bias[kTokens];
  float log_sum[kTokens];
  float delta[kTokens];
};

// D of each row: two threads share one.
template <typename T, int kHead>
__device__ __forceinline__ void load_rows(
    const ShortAttention& w,
    const HeadOfSequence& at,
    const T* out,
    const T* d_out,
    const float* log_sum,
    Rows& rows) {
  load_key_bias<T>(w, at, rows.key_bias);
  const std::int64_t width = static_cast<std::int64_t>(w.heads) * kHead;
  const int row = static_cast<int>(threadIdx.x) / 2;
  const int column = static_cast<int>(threadIdx.x) % 2 * (kHead / 2);
  float sum = 0.0F;
  if (row < at.length) {
    const std::int64_t from =
        (at.begin + row) * width + at.head * kHead + column;
#pragma unroll
    for (int i = 0; i < kHead / 2; i += kVector) {
      const Float8 a = load8(out + from + i);
      const Float8 b = load8(d_out + from + i);
#pragma unroll
      for (int n = 0; n < kVector; ++n) {
        sum += a.at[n] * b.at[n];
      }
    }
  }
  sum += __shfl_xor_sync(0xffffffffU, sum, 1);
  if (threadIdx.x % 2 == 0) {
    rows.delta[row] = sum;
    // What is not there has no weight.
    rows.log_sum[row] = row < at.length
                            ? log_sum[(at.begin + row) * w.heads + at.head]
                            : INFINITY;
  }
}

// Scores and gradients of weights, sixteen by sixteen, become P' and dS.
__device__ __forceinline__ void weigh(
    const ShortAttention& w,
    const Mask& mask,
    std::uint64_t group,
    const Rows& rows,
    int row,
    int column,
    Sums16x8* s,
    Sums16x8* d) {
  const int lane = lane_of_warp();
  Float8 kept;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    kept.at[i] = 1.0F;
  }
  if (w.dropout.rate > 0.0F) {
    mask.apply(kept, group);
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + lane / 4 + i / 2 * 8;
      const int c = column + n * 8 + lane % 4 * 2 + i % 2;
      const float weight = power_of_two(
          s[n].at[i] * (w.scale * kLog2E) + rows.key_bias[c] - rows.log_sum[r]);
      const float keep = kept.at[n * 4 + i];
      s[n].at[i] = weight * keep;
      d[n].at[i] = weight * (keep * d[n].at[i] - rows.delta[r]) * w.scale;
    }
  }
}

// This warp's part of P' and dS, into shared memory.
template <typename T, int kHead>
__device__ __forceinline__ void make_weights(
    const ShortAttention& w,
    const HeadOfSequence& at,
    const Mask& mask,
    const Tiles<T, kHead>& tiles,
    const Rows& rows) {
  const int row = warp_of_block() / 2 * kQueries;
  const int first_key = warp_of_block() % 2 * kKeys;
  if (row >= at.length || first_key >= at.length) {
    return;
  }
  Sums16x8 s[2][2 * kKeyParts] = {};
  Sums16x8 d[2][2 * kKeyParts] = {};
#pragma unroll
  for (int depth = 0; depth < kHead; depth += 16) {
    const Left16x16 q[2] = {
        load_left(tiles.q, row, depth), load_left(tiles.q, row + 16, depth)};
    const Left16x16 d_out[2] = {
        load_left(tiles.d_out, row, depth),
        load_left(tiles.d_out, row + 16, depth)};
#pragma unroll
    for (int part = 0; part < kKeyParts; ++part) {
      const int key = first_key + part * 16;
      if (key < at.length) {
        Right16x8 k[2];
        Right16x8 v[2];
        load_rights_transposed(k, tiles.k, depth, key);
        load_rights_transposed(v, tiles.v, depth, key);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            multiply_add<T>(s[m][2 * part + n], q[m], k[n]);
            multiply_add<T>(d[m][2 * part + n], d_out[m], v[n]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int part = 0; part < kKeyParts; ++part) {
      const int here = row + m * 16;
      const int key = first_key + part * 16;
      if (key < at.length) {
        weigh(
            w,
            mask,
            mask_group(w, at, here / 16, key / 16),
            rows,
            here,
            key,
            &s[m][2 * part],
            &d[m][2 * part]);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          store_sums(tiles.weights, here, key + n * 8, s[m][2 * part + n]);
          store_sums(tiles.d_scores, here, key + n * 8, d[m][2 * part + n]);
        }
      }
    }
  }
}

// 32 rows and half of a head's columns for each warp.
template <int kHead>
struct Gradient {
  static constexpr int kColumns = kHead / 2;
  Sums16x8 sums[2][kColumns / 8] = {};

  __device__ static int row() { return warp_of_block() / 2 * 32; }
  __device__ static int column() { return warp_of_block() % 2 * kColumns; }

  // Adds left times sixteen rows of `tile`.
  template <typename T>
  __device__ __forceinline__ void add(
      const Left16x16 (&left)[2], const Tile<T, kHead>& tile, int at) {
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      Right16x8 right[2];
      load_rights(right, tile, at, column() + n * 16);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply_add<T>(sums[m][2 * n], left[m], right[0]);
        multiply_add<T>(sums[m][2 * n + 1], left[m], right[1]);
      }
    }
  }

  // Through a tile that nobody reads any more.
  template <typename T>
  __device__ __forceinline__ void write(
      const Tile<T, kHead>& through,
      T* to,
      std::int64_t stride,
      int length) const {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        store_sums(through, row() + m * 16, column() + n * 8, sums[m][n]);
      }
      write_rows<kColumns>(
          through, row() + m * 16, column(), to, stride, length);
    }
  }
};

// Sums over rows of the three gradients, which the tiles hold now: two threads
// share two columns.
template <typename T, int kHead>
__device__ __forceinline__ void write_sums(
    const HeadOfSequence& at,
    const Tiles<T, kHead>& tiles,
    float* sums,
    std::int64_t width) {
  const int pair = static_cast<int>(threadIdx.x) / 2;
  const int part = pair / (kHead / 2);
  const int column = pair % (kHead / 2) * 2;
  if (part >= 3) {
    return;
  }
  const Tile<T, kHead> tile = {
      part == 0   ? tiles.q.data
      : part == 1 ? tiles.k.data
                  : tiles.v.data};
  float2 sum = {0.0F, 0.0F};
#pragma unroll 8
  for (int row = static_cast<int>(threadIdx.x) % 2; row < at.length; row += 2) {
    const T* const values = tile.at(row, column);
    sum.x += to_float(values[0]);
    sum.y += to_float(values[1]);
  }
  sum.x += __shfl_xor_sync(0xffffffffU, sum.x, 1);
  sum.y += __shfl_xor_sync(0xffffffffU, sum.y, 1);
  if (threadIdx.x % 2 == 0) {
    float* const to =
        sums + (static_cast<std::int64_t>(at.sequence) * 3 + part) * width +
        at.head * kHead + column;
    to[0] = sum.x;
    to[1] = sum.y;
  }
}

template <typename T, int kHead>
__global__ void __launch_bounds__(kBlock, 1) short_attention_backward_kernel(
    const __grid_constant__ ShortAttention w,
    const T* out,
    const float* log_sum,
    const T* d_out,
    T* d_packed,
    float* sums) {
  extern __shared__ uint4 memory[];
  __shared__ Rows rows;
  const Tiles<T, kHead> tiles(memory);
  const HeadOfSequence at(w);
  const std::int64_t width = static_cast<std::int64_t>(w.heads) * kHead;
  const std::int64_t packed_at = at.begin * 3 * width + at.head * kHead;
  const T* const from = static_cast<const T*>(w.packed) + packed_at;
  load_head(tiles.q, from, 3 * width, at.length);
  load_head(tiles.k, from + width, 3 * width, at.length);
  load_head(
      tiles.d_out,
      d_out + at.begin * width + at.head * kHead,
      width,
      at.length);
  load_head(tiles.v, from + 2 * width, 3 * width, at.length);
  load_rows<T, kHead>(w, at, out, d_out, log_sum, rows);
  wait_for_copies();
  __syncthreads();
  make_weights<T, kHead>(w, at, Mask(w.dropout), tiles, rows);
  __syncthreads();

  using Part = Gradient<kHead>;
  Part dq;
  Part dk;
  Part dv;
  if (Part::row() < at.length) {
#pragma unroll 2
    for (int other = 0; other < at.length; other += 16) {
      const Left16x16 weights[2] = {
          load_left_transposed(tiles.weights, Part::row(), other),
          load_left_transposed(tiles.weights, Part::row() + 16, other)};
      dv.add(weights, tiles.d_out, other);
      const Left16x16 d_keys[2] = {
          load_left_transposed(tiles.d_scores, Part::row(), other),
          load_left_transposed(tiles.d_scores, Part::row() + 16, other)};
      dk.add(d_keys, tiles.q, other);
      const Left16x16 d_queries[2] = {
          load_left(tiles.d_scores, Part::row(), other),
          load_left(tiles.d_scores, Part::row() + 16, other)};
      dq.add(d_queries, tiles.k, other);
    }
  }
  T* const to = d_packed + packed_at;
  __syncthreads();
  if (Part::row() < at.length) {
    dv.write(tiles.v, to + 2 * width, 3 * width, at.length);
    dk.write(tiles.k, to + width, 3 * width, at.length);
    dq.write(tiles.q, to, 3 * width, at.length);
  }
  __syncthreads();
  write_sums<T, kHead>(at, tiles, sums, width);
}

}  // namespace

cudaError_t short_attention_backward(
    const ShortAttention& work,
    const void* out,
    const float* log_sum,
    const void* d_out,
    void* d_packed,
    float* sums,
    cudaStream_t stream) {
  return with_head(work, [&](auto* type, auto width) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int kHead = decltype(width)::value;
    return launch_heads(
        short_attention_backward_kernel<T, kHead>,
        work,
        Tiles<T, kHead>::kBytes,
        stream,
        static_cast<const T*>(out),
        log_sum,
        static_cast<const T*>(d_out),
        static_cast<T*>(d_packed),
        sums);
  });
}

}  // namespace accelerate::cuda::kernels
