// SPDX-License-Identifier: Apache-2.0
// With P = softmax(S), P' = P after dropout, and D the row-wise sum of
// d_out * out,
//     dV = P'^T d_out,  dS = P (mask d_out V^T - D),  dQ = dS K,  dK = dS^T Q.
// The warps first compute P' and dS, each warp for 32 queries and 64 keys, and
// store them in shared memory. From these, they compute the three gradients,
// each warp for 32 rows and half of the columns.
#include "cuda/kernels/short_attention.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kQueries = 32;  // Per warp.
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
    for (HeadTile* tile : {&q, &k, &v, &d_out}) {
      tile->data = next;
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

// Computes D for each row, two threads per row, and loads the other row values.
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
      const Floats8 a = load8(out + from + i);
      const Floats8 b = load8(d_out + from + i);
#pragma unroll
      for (int n = 0; n < kVector; ++n) {
        sum += a.at[n] * b.at[n];
      }
    }
  }
  sum += __shfl_xor_sync(0xffffffffU, sum, 1);
  if (threadIdx.x % 2 == 0) {
    rows.delta[row] = sum;
    // Rows beyond the sequence get weights of 0.
    rows.log_sum[row] = row < at.length
                            ? log_sum[(at.begin + row) * w.heads + at.head]
                            : INFINITY;
  }
}

// Replaces scores and weight gradients, sixteen by sixteen, by P' and dS.
__device__ __forceinline__ void scores_to_gradients(
    const ShortAttention& w,
    const Mask& mask,
    std::uint64_t group,
    const Rows& rows,
    int row,
    int column,
    Accumulator* s,
    Accumulator* d) {
  const int lane = lane_index();
  Floats8 kept;
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
      const float weight = exp2_approx(
          s[n].at[i] * (w.scale * kLog2E) + rows.key_bias[c] - rows.log_sum[r]);
      const float keep = kept.at[n * 4 + i];
      s[n].at[i] = weight * keep;
      d[n].at[i] = weight * (keep * d[n].at[i] - rows.delta[r]) * w.scale;
    }
  }
}

// Computes this warp's part of P' and dS and stores it in shared memory.
template <typename T, int kHead>
__device__ __forceinline__ void compute_weights(
    const ShortAttention& w,
    const HeadOfSequence& at,
    const Mask& mask,
    const Tiles<T, kHead>& tiles,
    const Rows& rows) {
  const int row = warp_index() / 2 * kQueries;
  const int first_key = warp_index() % 2 * kKeys;
  if (row >= at.length || first_key >= at.length) {
    return;
  }
  Accumulator s[2][2 * kKeyParts] = {};
  Accumulator d[2][2 * kKeyParts] = {};
#pragma unroll
  for (int depth = 0; depth < kHead; depth += 16) {
    const FragmentA q[2] = {
        load_a(tiles.q, row, depth), load_a(tiles.q, row + 16, depth)};
    const FragmentA d_out[2] = {
        load_a(tiles.d_out, row, depth), load_a(tiles.d_out, row + 16, depth)};
#pragma unroll
    for (int part = 0; part < kKeyParts; ++part) {
      const int key = first_key + part * 16;
      if (key < at.length) {
        FragmentB k[2];
        FragmentB v[2];
        load_b_pair_transposed(k, tiles.k, depth, key);
        load_b_pair_transposed(v, tiles.v, depth, key);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            mma<T>(s[m][2 * part + n], q[m], k[n]);
            mma<T>(d[m][2 * part + n], d_out[m], v[n]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int part = 0; part < kKeyParts; ++part) {
      const int query = row + m * 16;
      const int key = first_key + part * 16;
      if (key < at.length) {
        scores_to_gradients(
            w,
            mask,
            mask_group(w, at, query / 16, key / 16),
            rows,
            query,
            key,
            &s[m][2 * part],
            &d[m][2 * part]);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          store_accumulator(
              tiles.weights, query, key + n * 8, s[m][2 * part + n]);
          store_accumulator(
              tiles.d_scores, query, key + n * 8, d[m][2 * part + n]);
        }
      }
    }
  }
}

// A gradient of which each warp computes 32 rows and half of a head's columns.
template <int kHead>
struct Gradient {
  static constexpr int kColumns = kHead / 2;
  Accumulator sums[2][kColumns / 8] = {};

  __device__ static int row() { return warp_index() / 2 * 32; }
  __device__ static int column() { return warp_index() % 2 * kColumns; }

  // Adds the product of `a` and sixteen rows of `tile`.
  template <typename T>
  __device__ __forceinline__ void add(
      const FragmentA (&a)[2], const Tile<T, kHead>& tile, int at) {
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      FragmentB b[2];
      load_b_pair(b, tile, at, column() + n * 16);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        mma<T>(sums[m][2 * n], a[m], b[0]);
        mma<T>(sums[m][2 * n + 1], a[m], b[1]);
      }
    }
  }

  // Writes the rows to global memory through a tile that is no longer read.
  template <typename T>
  __device__ __forceinline__ void write(
      const Tile<T, kHead>& tile,
      T* to,
      std::int64_t stride,
      int length) const {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        store_accumulator(tile, row() + m * 16, column() + n * 8, sums[m][n]);
      }
      write_rows<kColumns>(tile, row() + m * 16, column(), to, stride, length);
    }
  }
};

// Writes the column sums of the three gradients that are now in the tiles. Each
// pair of threads sums two columns.
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
    T* d_qkv,
    float* sums) {
  extern __shared__ uint4 memory[];
  __shared__ Rows rows;
  const Tiles<T, kHead> tiles(memory);
  const HeadOfSequence at(w);
  const std::int64_t width = static_cast<std::int64_t>(w.heads) * kHead;
  const std::int64_t qkv_offset = at.begin * 3 * width + at.head * kHead;
  const T* const from = static_cast<const T*>(w.qkv) + qkv_offset;
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
  compute_weights<T, kHead>(w, at, Mask(w.dropout), tiles, rows);
  __syncthreads();

  using Part = Gradient<kHead>;
  Part dq;
  Part dk;
  Part dv;
  if (Part::row() < at.length) {
#pragma unroll 2
    for (int depth = 0; depth < at.length; depth += 16) {
      const FragmentA weights[2] = {
          load_a_transposed(tiles.weights, Part::row(), depth),
          load_a_transposed(tiles.weights, Part::row() + 16, depth)};
      dv.add(weights, tiles.d_out, depth);
      const FragmentA d_keys[2] = {
          load_a_transposed(tiles.d_scores, Part::row(), depth),
          load_a_transposed(tiles.d_scores, Part::row() + 16, depth)};
      dk.add(d_keys, tiles.q, depth);
      const FragmentA d_queries[2] = {
          load_a(tiles.d_scores, Part::row(), depth),
          load_a(tiles.d_scores, Part::row() + 16, depth)};
      dq.add(d_queries, tiles.k, depth);
    }
  }
  T* const to = d_qkv + qkv_offset;
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
    void* d_qkv,
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
        static_cast<T*>(d_qkv),
        sums);
  });
}

}  // namespace accelerate::cuda::kernels
