// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/heads.h"
#include "cuda/kernels/strips.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kThreads = 256;

// A thread turns a piece of the first half with its partner in the second.
struct Place {
  std::int64_t sequence;
  std::int64_t token;
  int head;  // Of query, key and value heads in a row.
  int channel;
};

struct Work {
  HeadSizes sizes;
  Rotation rotation;
  HeadsView from[3];
  int heads;   // How many of a row are touched.
  int pieces;  // Of half a head.
  std::int64_t count;
};

template <int kWidth>
__device__ __forceinline__ Place place_of(const Work& w, std::int64_t i) {
  const int piece = static_cast<int>(i % w.pieces);
  const std::int64_t rest = i / w.pieces;
  const std::int64_t row = rest / w.heads;
  return {
      row / w.sizes.tokens,
      row % w.sizes.tokens,
      static_cast<int>(rest % w.heads),
      piece * kWidth};
}

__device__ __forceinline__ std::int64_t packed_at(
    const HeadSizes& s, const Place& p) {
  const std::int64_t row_heads = s.query_heads + 2 * s.key_heads;
  return ((p.sequence * s.tokens + p.token) * row_heads + p.head) * s.width +
         p.channel;
}

template <int kWidth, typename T>
struct Piece {
  float at[kWidth];
  __device__ static Piece load(const T* from) {
    Piece piece;
    if constexpr (kWidth == kVector) {
      const Float8 x = load8(from);
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
      Float8 x;
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

// The matrix of a turn is orthogonal: backward is the turn the other way,
// also where cos and sin carry a scale, and where the halves differ.
template <bool kIsBack, int kWidth, typename T>
__device__ __forceinline__ void turn(
    const Work& w, const Place& p, Piece<kWidth, T>& a, Piece<kWidth, T>& b) {
  const std::int64_t half = w.sizes.width / 2;
  const std::int64_t at = p.sequence * w.rotation.batch_stride +
                          p.token * w.sizes.width + p.channel;
  using Table = Piece<kWidth, float>;
  const Table cos_a = Table::load(w.rotation.cos + at);
  const Table sin_a = Table::load(w.rotation.sin + at);
  const Table cos_b = Table::load(w.rotation.cos + at + half);
  const Table sin_b = Table::load(w.rotation.sin + at + half);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const float x = a.at[k];
    const float y = b.at[k];
    if constexpr (kIsBack) {
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
    rotate_kernel(const __grid_constant__ Work w, T* packed) {
  const int half = w.sizes.width / 2;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < w.count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const Place p = place_of<kWidth>(w, i);
    T* const at = packed + packed_at(w.sizes, p);
    auto a = Piece<kWidth, T>::load(at);
    auto b = Piece<kWidth, T>::load(at + half);
    turn<false>(w, p, a, b);
    a.store(at);
    b.store(at + half);
  }
}

struct Source {
  const HeadsView& view;
  int head;
  bool is_value;
};

// Where a head of a packed row comes from.
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
    pack_kernel(const __grid_constant__ Work w, T* packed) {
  const int half = w.sizes.width / 2;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < w.count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const Place p = place_of<kWidth>(w, i);
    const Source from = source_of(w, p.head);
    const T* const source = static_cast<const T*>(from.view.data) +
                            p.sequence * from.view.batch_stride +
                            from.head * from.view.head_stride +
                            p.token * from.view.token_stride + p.channel;
    auto a = Piece<kWidth, T>::load(source);
    auto b = Piece<kWidth, T>::load(source + half);
    if (!from.is_value && w.rotation.cos != nullptr) {
      turn<true>(w, p, a, b);
    }
    T* const at = packed + packed_at(w.sizes, p);
    a.store(at);
    b.store(at + half);
  }
}

// Views whose rows lie evenly apart; nothing is turned.
template <typename T>
__global__ void __launch_bounds__(kStripBlock, kStripsAtOnce)
    pack_and_sum_kernel(
        const __grid_constant__ Work w,
        std::int64_t rows,
        std::int64_t width,
        T* packed,
        float* partial) {
  const Strip strip;
  Float8 sum = {};
  if (strip.column < width) {
    const int column = static_cast<int>(strip.column);
    const Source from = source_of(w, column / w.sizes.width);
    const T* const source = static_cast<const T*>(from.view.data) +
                            from.head * from.view.head_stride +
                            column % w.sizes.width;
    walk<4>(
        strip,
        source,
        from.view.token_stride,
        rows,
        [&](std::int64_t row, const Float8& x) {
          store8(packed + row * width + column, x);
          add(sum, x);
        });
  }
  write_strip(strip, sum, width, partial);
}

bool lies_evenly(const HeadsView& v, const HeadSizes& sizes) {
  return sizes.batch == 1 || v.batch_stride == sizes.tokens * v.token_stride;
}

bool is_view_aligned(const HeadsView& v) {
  return is_aligned(v.data) && v.batch_stride % kVector == 0 &&
         v.head_stride % kVector == 0 && v.token_stride % kVector == 0;
}

bool can_use_vectors(const Work& w, const void* packed) {
  return w.sizes.width % (2 * kVector) == 0 && is_aligned(packed) &&
         is_aligned(w.rotation.cos) && is_aligned(w.rotation.sin) &&
         w.rotation.batch_stride % 4 == 0 && is_view_aligned(w.from[0]) &&
         is_view_aligned(w.from[1]) && is_view_aligned(w.from[2]);
}

// Decides how wide pieces are and calls `launch` with that.
template <typename Launch>
void in_pieces(Work w, const void* packed, Launch launch) {
  const bool is_vector = can_use_vectors(w, packed);
  w.pieces = w.sizes.width / 2 / (is_vector ? kVector : 1);
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

void rotate_packed(
    const HeadSizes& sizes,
    void* packed,
    const Rotation& rotation,
    cudaStream_t stream) {
  Work work = {sizes, rotation, {}, sizes.query_heads + sizes.key_heads, 0, 0};
  in_pieces(work, packed, [&](const Work& w, int grid, auto width) {
    with_type(sizes.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      rotate_kernel<T, decltype(width)::value>
          <<<grid, kThreads, 0, stream>>>(w, static_cast<T*>(packed));
    });
  });
}

void pack_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    const Rotation& rotation,
    void* d_packed,
    cudaStream_t stream) {
  Work work = {
      sizes,
      rotation,
      {dq, dk, dv},
      sizes.query_heads + 2 * sizes.key_heads,
      0,
      0};
  in_pieces(work, d_packed, [&](const Work& w, int grid, auto width) {
    with_type(sizes.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      pack_kernel<T, decltype(width)::value>
          <<<grid, kThreads, 0, stream>>>(w, static_cast<T*>(d_packed));
    });
  });
}

bool pack_and_sum_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    void* d_packed,
    float* workspace,
    cudaStream_t stream) {
  const Work work = {sizes, {}, {dq, dk, dv}, 0, 0, 0};
  const std::int64_t rows = sizes.batch * sizes.tokens;
  const std::int64_t width = static_cast<std::int64_t>(sizes.width) *
                             (sizes.query_heads + 2 * sizes.key_heads);
  if (!lies_evenly(dq, sizes) || !lies_evenly(dk, sizes) ||
      !lies_evenly(dv, sizes) || !can_use_vectors(work, d_packed)) {
    return false;
  }
  if (rows > 0 && width > 0) {
    with_type(sizes.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      pack_and_sum_kernel<T>
          <<<strip_grid(rows, width), strip_block(), 0, stream>>>(
              work, rows, width, static_cast<T*>(d_packed), workspace);
    });
  }
  return true;
}

}  // namespace accelerate::cuda::kernels
