// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/heads.h"
#include "cuda/kernels/strips.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kThreads = 256;

// A thread rotates a piece of the first half of a head together with the
// matching piece of the second half.
struct PiecePosition {
  std::int64_t sequence;
  std::int64_t token;
  int head;  // Counted over all query, key and value heads of a row.
  int channel;
};

struct Work {
  HeadSizes sizes;
  RotaryEmbedding rotary;
  HeadsView from[3];
  int heads;   // How many heads of a row are processed.
  int pieces;  // Per half of a head.
  std::int64_t count;
};

template <int kWidth>
__device__ __forceinline__ PiecePosition
position_of(const Work& w, std::int64_t i) {
  const int piece = static_cast<int>(i % w.pieces);
  const std::int64_t rest = i / w.pieces;
  const std::int64_t row = rest / w.heads;
  return {
      row / w.sizes.tokens,
      row % w.sizes.tokens,
      static_cast<int>(rest % w.heads),
      piece * kWidth};
}

__device__ __forceinline__ std::int64_t qkv_offset(
    const HeadSizes& s, const PiecePosition& p) {
  const std::int64_t row_heads = s.query_heads + 2 * s.key_heads;
  return ((p.sequence * s.tokens + p.token) * row_heads + p.head) * s.head_dim +
         p.channel;
}

template <int kWidth, typename T>
struct Piece {
  float at[kWidth];
  __device__ static Piece load(const T* from) {
    Piece piece;
    if constexpr (kWidth == kVector) {
      const Floats8 x = load8(from);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        piece.at[k] = x.at[k];
      }
    } else {
      piece.at[0] = to_float(from[0]);
    }
    return piece;
  }
  __device__ void store(T* to) const {
    if constexpr (kWidth == kVector) {
      Floats8 x;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        x.at[k] = at[k];
      }
      store8(to, x);
    } else {
      to[0] = from_float<T>(at[0]);
    }
  }
};

// Backward applies the transposed rotation matrix, which is also correct if cos
// and sin include a scale or differ between the halves.
template <bool kIsBackward, int kWidth, typename T>
__device__ __forceinline__ void rotate(
    const Work& w,
    const PiecePosition& p,
    Piece<kWidth, T>& a,
    Piece<kWidth, T>& b) {
  const std::int64_t half = w.sizes.head_dim / 2;
  const std::int64_t at = p.sequence * w.rotary.batch_stride +
                          p.token * w.sizes.head_dim + p.channel;
  using Table = Piece<kWidth, float>;
  const Table cos_a = Table::load(w.rotary.cos + at);
  const Table sin_a = Table::load(w.rotary.sin + at);
  const Table cos_b = Table::load(w.rotary.cos + at + half);
  const Table sin_b = Table::load(w.rotary.sin + at + half);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const float x = a.at[k];
    const float y = b.at[k];
    if constexpr (kIsBackward) {
      a.at[k] = x * cos_a.at[k] + y * sin_b.at[k];
      b.at[k] = y * cos_b.at[k] - x * sin_a.at[k];
    } else {
      a.at[k] = x * cos_a.at[k] - y * sin_a.at[k];
      b.at[k] = y * cos_b.at[k] + x * sin_b.at[k];
    }
  }
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    rotate_kernel(const __grid_constant__ Work w, T* qkv) {
  const int half = w.sizes.head_dim / 2;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < w.count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const PiecePosition p = position_of<kWidth>(w, i);
    T* const at = qkv + qkv_offset(w.sizes, p);
    auto a = Piece<kWidth, T>::load(at);
    auto b = Piece<kWidth, T>::load(at + half);
    rotate<false>(w, p, a, b);
    a.store(at);
    b.store(at + half);
  }
}

struct Source {
  const HeadsView& view;
  int head;
  bool is_value;
};

// Returns the gradient from which a head of a `d_qkv` row is copied.
__device__ __forceinline__ Source source_of(const Work& w, int head) {
  const int queries = w.sizes.query_heads;
  const int keys = w.sizes.key_heads;
  if (head < queries) {
    return {w.from[0], head, false};
  }
  return head < queries + keys ? Source{w.from[1], head - queries, false}
                               : Source{w.from[2], head - queries - keys, true};
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(const __grid_constant__ Work w, T* qkv) {
  const int half = w.sizes.head_dim / 2;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < w.count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const PiecePosition p = position_of<kWidth>(w, i);
    const Source from = source_of(w, p.head);
    const T* const source = static_cast<const T*>(from.view.data) +
                            p.sequence * from.view.batch_stride +
                            from.head * from.view.head_stride +
                            p.token * from.view.token_stride + p.channel;
    auto a = Piece<kWidth, T>::load(source);
    auto b = Piece<kWidth, T>::load(source + half);
    if (!from.is_value && w.rotary.cos != nullptr) {
      rotate<true>(w, p, a, b);
    }
    T* const at = qkv + qkv_offset(w.sizes, p);
    a.store(at);
    b.store(at + half);
  }
}

// Supports only views with a uniform row stride, and no rotary embedding.
template <typename T>
__global__ void __launch_bounds__(kStripBlock, kStripBlocksPerSm)
    pack_and_sum_kernel(
        const __grid_constant__ Work w,
        std::int64_t rows,
        std::int64_t width,
        T* qkv,
        float* partial) {
  const Strip strip;
  Floats8 sum = {};
  if (strip.column < width) {
    const int column = static_cast<int>(strip.column);
    const Source from = source_of(w, column / w.sizes.head_dim);
    const T* const source = static_cast<const T*>(from.view.data) +
                            from.head * from.view.head_stride +
                            column % w.sizes.head_dim;
    for_each_row<4>(
        strip,
        source,
        from.view.token_stride,
        rows,
        [&](std::int64_t row, const Floats8& x) {
          store8(qkv + row * width + column, x);
          add(sum, x);
        });
  }
  write_strip(strip, sum, width, partial);
}

bool has_uniform_row_stride(const HeadsView& v, const HeadSizes& sizes) {
  return sizes.batch == 1 || v.batch_stride == sizes.tokens * v.token_stride;
}

bool is_view_aligned(const HeadsView& v) {
  return is_aligned(v.data) && v.batch_stride % kVector == 0 &&
         v.head_stride % kVector == 0 && v.token_stride % kVector == 0;
}

bool can_use_vectors(const Work& w, const void* qkv) {
  return w.sizes.head_dim % (2 * kVector) == 0 && is_aligned(qkv) &&
         is_aligned(w.rotary.cos) && is_aligned(w.rotary.sin) &&
         w.rotary.batch_stride % 4 == 0 && is_view_aligned(w.from[0]) &&
         is_view_aligned(w.from[1]) && is_view_aligned(w.from[2]);
}

// Chooses the width of the pieces and calls `launch` with it.
template <typename Launch>
void with_piece_width(Work w, const void* qkv, Launch launch) {
  const bool is_vector = can_use_vectors(w, qkv);
  w.pieces = w.sizes.head_dim / 2 / (is_vector ? kVector : 1);
  w.count = w.sizes.batch * w.sizes.tokens * w.heads * w.pieces;
  if (w.count == 0) {
    return;
  }
  const int grid = grid_of(ceil_div(w.count, kThreads), 8);
  if (is_vector) {
    launch(w, grid, std::integral_constant<int, kVector>());
  } else {
    launch(w, grid, std::integral_constant<int, 1>());
  }
}

}  // namespace

void apply_rotary_embedding(
    const HeadSizes& sizes,
    void* qkv,
    const RotaryEmbedding& rotary,
    cudaStream_t stream) {
  Work work = {sizes, rotary, {}, sizes.query_heads + sizes.key_heads, 0, 0};
  with_piece_width(work, qkv, [&](const Work& w, int grid, auto width) {
    with_type(sizes.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      rotate_kernel<T, decltype(width)::value>
          <<<grid, kThreads, 0, stream>>>(w, static_cast<T*>(qkv));
    });
  });
}

void pack_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    const RotaryEmbedding& rotary,
    void* d_qkv,
    cudaStream_t stream) {
  Work work = {
      sizes,
      rotary,
      {dq, dk, dv},
      sizes.query_heads + 2 * sizes.key_heads,
      0,
      0};
  with_piece_width(work, d_qkv, [&](const Work& w, int grid, auto width) {
    with_type(sizes.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      pack_kernel<T, decltype(width)::value>
          <<<grid, kThreads, 0, stream>>>(w, static_cast<T*>(d_qkv));
    });
  });
}

bool pack_and_sum_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    void* d_qkv,
    float* workspace,
    cudaStream_t stream) {
  const Work work = {sizes, {}, {dq, dk, dv}, 0, 0, 0};
  const std::int64_t rows = sizes.batch * sizes.tokens;
  const std::int64_t width = static_cast<std::int64_t>(sizes.head_dim) *
                             (sizes.query_heads + 2 * sizes.key_heads);
  if (!has_uniform_row_stride(dq, sizes) ||
      !has_uniform_row_stride(dk, sizes) ||
      !has_uniform_row_stride(dv, sizes) || !can_use_vectors(work, d_qkv)) {
    return false;
  }
  if (rows > 0 && width > 0) {
    with_type(sizes.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      pack_and_sum_kernel<T>
          <<<strip_grid(rows, width), strip_block(), 0, stream>>>(
              work, rows, width, static_cast<T*>(d_qkv), workspace);
    });
  }
  return true;
}

}  // namespace accelerate::cuda::kernels
