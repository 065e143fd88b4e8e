// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/short_attention.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kParts = kTokens / 16;  // Tiles of sixteen keys.

struct RowStatistics {
  float max, sum;
};

// Replaces the scores of a row by exp2(score - row maximum). A lane has two
// rows; this function processes the row in elements `kFirst` and `kFirst + 1`
// of each accumulator.
template <int kFirst>
__device__ __forceinline__ RowStatistics
softmax_row(Accumulator (&s)[2 * kParts], const float* key_bias, float scale) {
  const int column = lane_index() % 4 * 2;
  RowStatistics row = {-INFINITY, 0.0F};
#pragma unroll
  for (int n = 0; n < 2 * kParts; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = s[n].at[kFirst + i];
      score = score * scale + key_bias[n * 8 + column + i];
      row.max = fmaxf(row.max, score);
    }
  }
  row.max = fmaxf(row.max, __shfl_xor_sync(0xffffffffU, row.max, 1));
  row.max = fmaxf(row.max, __shfl_xor_sync(0xffffffffU, row.max, 2));
#pragma unroll
  for (int n = 0; n < 2 * kParts; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = s[n].at[kFirst + i];
      score = exp2_approx(score - row.max);
      row.sum += score;
    }
  }
  row.sum += __shfl_xor_sync(0xffffffffU, row.sum, 1);
  row.sum += __shfl_xor_sync(0xffffffffU, row.sum, 2);
  return row;
}

__device__ __forceinline__ void apply_dropout(
    Accumulator& first,
    Accumulator& second,
    const Mask& mask,
    std::uint64_t group) {
  Floats8 both;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    both.at[i] = first.at[i];
    both.at[4 + i] = second.at[i];
  }
  mask.apply(both, group);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first.at[i] = both.at[i];
    second.at[i] = both.at[4 + i];
  }
}

template <typename T, int kHead>
__global__ void __launch_bounds__(kBlock, 2) short_attention_forward_kernel(
    const __grid_constant__ ShortAttention w, T* out, float* log_sum) {
  extern __shared__ uint4 memory[];
  __shared__ float key_bias[kTokens];
  using HeadTile = Tile<T, kHead>;
  auto* const values = reinterpret_cast<T*>(memory);
  const HeadTile q = {values};
  const HeadTile k = {values + kTokens * HeadTile::kStride};
  const HeadTile v = {values + 2 * kTokens * HeadTile::kStride};
  const HeadOfSequence at(w);
  const std::int64_t width = static_cast<std::int64_t>(w.heads) * kHead;
  const T* const from =
      static_cast<const T*>(w.qkv) + at.begin * 3 * width + at.head * kHead;
  load_head(q, from, 3 * width, at.length);
  load_head(k, from + width, 3 * width, at.length);
  load_head(v, from + 2 * width, 3 * width, at.length);
  load_key_bias<T>(w, at, key_bias);
  wait_for_copies();
  __syncthreads();
  const int row = warp_index() * 16;
  if (row >= at.length) {
    return;
  }

  Accumulator s[2 * kParts] = {};
#pragma unroll
  for (int depth = 0; depth < kHead; depth += 16) {
    const FragmentA a = load_a(q, row, depth);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part * 16 < at.length) {
        FragmentB b[2];
        load_b_pair_transposed(b, k, depth, part * 16);
        mma<T>(s[2 * part], a, b[0]);
        mma<T>(s[2 * part + 1], a, b[1]);
      }
    }
  }
  const RowStatistics upper = softmax_row<0>(s, key_bias, w.scale * kLog2E);
  const RowStatistics lower = softmax_row<2>(s, key_bias, w.scale * kLog2E);

  const Mask mask(w.dropout);
  Accumulator o[kHead / 8] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    if (part * 16 < at.length) {
      if (w.dropout.rate > 0.0F) {
        apply_dropout(
            s[2 * part],
            s[2 * part + 1],
            mask,
            mask_group(w, at, warp_index(), part));
      }
      const FragmentA a = as_fragment_a<T>(s[2 * part], s[2 * part + 1]);
#pragma unroll
      for (int n = 0; n < kHead / 16; ++n) {
        FragmentB b[2];
        load_b_pair(b, v, part * 16, n * 16);
        mma<T>(o[2 * n], a, b[0]);
        mma<T>(o[2 * n + 1], a, b[1]);
      }
    }
  }
  const float upper_inverse = 1.0F / upper.sum;
  const float lower_inverse = 1.0F / lower.sum;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kHead / 8; ++n) {
    o[n].at[0] *= upper_inverse;
    o[n].at[1] *= upper_inverse;
    o[n].at[2] *= lower_inverse;
    o[n].at[3] *= lower_inverse;
    store_accumulator(q, row, n * 8, o[n]);  // No other warp reads these rows.
  }
  write_rows<kHead>(
      q, row, 0, out + at.begin * width + at.head * kHead, width, at.length);
  if (lane_index() % 4 == 0) {
    const int first_row = row + lane_index() / 4;
    float* const to = log_sum + at.begin * w.heads + at.head;
    if (first_row < at.length) {
      to[static_cast<std::int64_t>(first_row) * w.heads] =
          upper.max + log2f(upper.sum);
    }
    if (first_row + 8 < at.length) {
      to[static_cast<std::int64_t>(first_row + 8) * w.heads] =
          lower.max + log2f(lower.sum);
    }
  }
}

}  // namespace

bool supports_short_attention(
    Type type, std::int64_t tokens, std::int64_t head_dim) {
  return type != Type::f32 && tokens <= kShortTokens &&
         (head_dim == 32 || head_dim == 64);
}

cudaError_t short_attention_forward(
    const ShortAttention& work,
    void* out,
    float* log_sum,
    cudaStream_t stream) {
  return with_head(work, [&](auto* type, auto width) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int kHead = decltype(width)::value;
    return launch_heads(
        short_attention_forward_kernel<T, kHead>,
        work,
        3 * tile_bytes<T, kHead>(kTokens),
        stream,
        static_cast<T*>(out),
        log_sum);
  });
}

}  // namespace accelerate::cuda::kernels
