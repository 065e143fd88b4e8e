// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/short_attention.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kParts = kTokens / 16;  // Of the keys.

struct RowStatistics {
  float most, sum;
};

// Turns scores into powers of two below the row's largest; of a lane's two
// rows this is one: `first` and the next number of each tile.
template <int kFirst>
__device__ __forceinline__ RowStatistics
weigh(Sums16x8 (&s)[2 * kParts], const float* key_bias, float scale) {
  const int column = lane_of_warp() % 4 * 2;
  RowStatistics row = {-INFINITY, 0.0F};
#pragma unroll
  for (int n = 0; n < 2 * kParts; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = s[n].at[kFirst + i];
      score = score * scale + key_bias[n * 8 + column + i];
      row.most = fmaxf(row.most, score);
    }
  }
  row.most = fmaxf(row.most, __shfl_xor_sync(0xffffffffU, row.most, 1));
  row.most = fmaxf(row.most, __shfl_xor_sync(0xffffffffU, row.most, 2));
#pragma unroll
  for (int n = 0; n < 2 * kParts; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = s[n].at[kFirst + i];
      score = power_of_two(score - row.most);
      row.sum += score;
    }
  }
  row.sum += __shfl_xor_sync(0xffffffffU, row.sum, 1);
  row.sum += __shfl_xor_sync(0xffffffffU, row.sum, 2);
  return row;
}

__device__ __forceinline__ void drop(
    Sums16x8& first, Sums16x8& second, const Mask& mask, std::uint64_t group) {
  Float8 both;
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
      static_cast<const T*>(w.packed) + at.begin * 3 * width + at.head * kHead;
  load_head(q, from, 3 * width, at.length);
  load_head(k, from + width, 3 * width, at.length);
  load_head(v, from + 2 * width, 3 * width, at.length);
  load_key_bias<T>(w, at, key_bias);
  wait_for_copies();
  __syncthreads();
  const int row = warp_of_block() * 16;
  if (row >= at.length) {
    return;
  }

  Sums16x8 s[2 * kParts] = {};
#pragma unroll
  for (int depth = 0; depth < kHead; depth += 16) {
    const Left16x16 left = load_left(q, row, depth);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part * 16 < at.length) {
        Right16x8 right[2];
        load_rights_transposed(right, k, depth, part * 16);
        multiply_add<T>(s[2 * part], left, right[0]);
        multiply_add<T>(s[2 * part + 1], left, right[1]);
      }
    }
  }
  const RowStatistics upper = weigh<0>(s, key_bias, w.scale * kLog2E);
  const RowStatistics lower = weigh<2>(s, key_bias, w.scale * kLog2E);

  const Mask mask(w.dropout);
  Sums16x8 o[kHead / 8] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    if (part * 16 < at.length) {
      if (w.dropout.rate > 0.0F) {
        drop(
            s[2 * part],
            s[2 * part + 1],
            mask,
            mask_group(w, at, warp_of_block(), part));
      }
      const Left16x16 left = as_left<T>(s[2 * part], s[2 * part + 1]);
#pragma unroll
      for (int n = 0; n < kHead / 16; ++n) {
        Right16x8 right[2];
        load_rights(right, v, part * 16, n * 16);
        multiply_add<T>(o[2 * n], left, right[0]);
        multiply_add<T>(o[2 * n + 1], left, right[1]);
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
    store_sums(q, row, n * 8, o[n]);  // Nobody else reads these rows.
  }
  write_rows<kHead>(
      q, row, 0, out + at.begin * width + at.head * kHead, width, at.length);
  if (lane_of_warp() % 4 == 0) {
    const int mine = row + lane_of_warp() / 4;
    float* const to = log_sum + at.begin * w.heads + at.head;
    if (mine < at.length) {
      to[static_cast<std::int64_t>(mine) * w.heads] =
          upper.most + log2f(upper.sum);
    }
    if (mine + 8 < at.length) {
      to[static_cast<std::int64_t>(mine + 8) * w.heads] =
          lower.most + log2f(lower.sum);
    }
  }
}

}  // namespace

bool can_be_short_attention(
    Type type, std::int64_t tokens, std::int64_t head_width) {
  return type != Type::f32 && tokens <= kShortTokens &&
         (head_width == 32 || head_width == 64);
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
