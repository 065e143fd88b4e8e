// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/norm_rows.cuh"
#include "cuda/kernels/summed_embedding.h"

namespace accelerate::cuda::kernels {
namespace {

// Returns the row `id` of a table; traps when the table has no such row.
__device__ __forceinline__ std::int64_t checked(
    std::int64_t id, std::int64_t rows) {
  if (id < 0 || id >= rows) {
    __trap();
  }
  return id;
}

struct RowStatistics {
  float mean, rstd;
};

// Computes the statistics of a row that is in the registers of its threads.
// `scratch` has one float for each warp.
template <typename Shape>
__device__ __forceinline__ RowStatistics row_statistics(
    const Floats8 (&x)[Shape::kVectors],
    std::int64_t width,
    float eps,
    float* scratch) {
  const float inverse_width = 1.0F / static_cast<float>(width);
  float sum = 0.0F;
#pragma unroll
  for (int v = 0; v < Shape::kVectors; ++v) {
    if (Shape::column(v) < width) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        sum += x[v].at[k];
      }
    }
  }
  const float mean = block_sum<Shape::kThreads>(sum, scratch) * inverse_width;
  float squares = 0.0F;
#pragma unroll
  for (int v = 0; v < Shape::kVectors; ++v) {
    if (Shape::column(v) < width) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        const float centred = x[v].at[k] - mean;
        squares += centred * centred;
      }
    }
  }
  return {
      mean,
      rsqrtf(
          block_sum<Shape::kThreads>(squares, scratch) * inverse_width + eps)};
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kBlock)
    summed_embedding_kernel(const __grid_constant__ SummedEmbedding w) {
  __shared__ float scratch[Shape::kThreads / kWarp];
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * Shape::kRows +
      Shape::row_in_block();
  if (row >= w.rows) {
    return;  // Only whole warps return, or whole blocks if there are barriers.
  }
  const std::int64_t type =
      w.types != nullptr ? checked(w.types[row], w.type_rows) : 0;
  const float* const word =
      w.words + checked(w.ids[row], w.word_rows) * w.width;
  const std::int64_t position_id =
      w.position_ids != nullptr ? checked(w.position_ids[row], w.position_rows)
                                : row % w.tokens;
  const float* const position = w.positions + position_id * w.width;
  const float* const type_row =
      w.type_table != nullptr ? w.type_table + type * w.width : nullptr;
  auto* const sums = static_cast<__nv_bfloat16*>(w.sum) + row * w.width;
  Floats8 x[Shape::kVectors];
#pragma unroll
  for (int v = 0; v < Shape::kVectors; ++v) {
    const int column = Shape::column(v);
    if (column < w.width) {
      x[v] = load8(word + column);
      add(x[v], load8(position + column));
      if (type_row != nullptr) {
        add(x[v], load8(type_row + column));
      }
      store8(sums + column, x[v]);
    }
  }
  const auto [mean, rstd] = row_statistics<Shape>(x, w.width, w.eps, scratch);
  const Mask mask(w.dropout);
#pragma unroll
  for (int v = 0; v < Shape::kVectors; ++v) {
    const int column = Shape::column(v);
    if (column < w.width) {
      Floats8 y = load8(w.shift + column);
      const Floats8 weight = load8(w.weight + column);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        y.at[k] += (x[v].at[k] - mean) * rstd * weight.at[k];
      }
      const std::int64_t at = row * w.width + column;
      if (w.dropout.rate > 0.0F) {
        mask.apply(y, static_cast<std::uint64_t>(at) / kVector);
      }
      store8(static_cast<__nv_bfloat16*>(w.y) + at, y);
    }
  }
  if (Shape::lane() == 0) {
    w.mean[row] = mean;
    w.rstd[row] = rstd;
  }
}

constexpr int kThreads = 32;  // Eight columns each.
constexpr int kLines = 8;

// blockIdx.x: a position; blockIdx.y: 256 columns. The sequences are divided
// among eight lines of threads, whose sums are then reduced.
__global__ void __launch_bounds__(kThreads* kLines)
    position_type_gradients_kernel(
        const __grid_constant__ PositionTypeGradients w) {
  __shared__ float folded[kLines][kVector][kThreads];
  const std::int64_t position = blockIdx.x;
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) *
      kVector;
  const bool in_range = column < w.width;
  const bool is_used = position < w.tokens;
  Floats8 sums[PositionTypeGradients::kMaxTypes] = {};
  if (in_range && is_used) {
    const std::int64_t step = kLines * w.tokens;
    for (std::int64_t row = position + threadIdx.y * w.tokens; row < w.rows;
         row += step) {
      const Floats8 d = load8(
          static_cast<const __nv_bfloat16*>(w.d_sum) + row * w.width + column);
      const std::int64_t type = w.types != nullptr ? w.types[row] : 0;
#pragma unroll
      for (int t = 0; t < PositionTypeGradients::kMaxTypes; ++t) {
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
          sums[t].at[k] += type == t ? d.at[k] : 0.0F;
        }
      }
    }
  }
  float total_of_types = 0.0F;
#pragma unroll
  for (int t = 0; t < PositionTypeGradients::kMaxTypes; ++t) {
    if (t < w.type_rows) {
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        folded[threadIdx.y][k][threadIdx.x] = sums[t].at[k];
      }
      __syncthreads();
      // Each of the eight lines reduces one of the eight elements of a vector.
      float total = 0.0F;
#pragma unroll
      for (int i = 0; i < kLines; ++i) {
        total += folded[i][threadIdx.y][threadIdx.x];
      }
      if (in_range && is_used) {
        w.workspace
            [(position * w.type_rows + t) * w.width + column + threadIdx.y] =
            total;
      }
      total_of_types += total;
    }
  }
  if (in_range) {
    w.d_positions[position * w.width + column + threadIdx.y] = total_of_types;
  }
}
static_assert(kLines == kVector);

}  // namespace

void summed_embedding(const SummedEmbedding& work, cudaStream_t stream) {
  if (work.rows == 0) {
    return;
  }
  with_row_shape(work.width, [&](auto shape) {
    using Shape = decltype(shape);
    const auto grid = static_cast<unsigned>(ceil_div(work.rows, Shape::kRows));
    summed_embedding_kernel<Shape><<<grid, Shape::kBlock, 0, stream>>>(work);
  });
}

void position_type_gradients(
    const PositionTypeGradients& work, cudaStream_t stream) {
  const dim3 grid(
      static_cast<unsigned>(work.position_rows),
      static_cast<unsigned>(ceil_div(work.width, kThreads * kVector)));
  position_type_gradients_kernel<<<grid, dim3(kThreads, kLines), 0, stream>>>(
      work);
  ColumnSums sums;
  for (std::int64_t t = 0; t < work.type_rows; ++t) {
    sums.out[t] = work.d_types + t * work.width;
  }
  reduce_partial_sums(
      work.workspace,
      work.rows == 0 ? 0 : work.tokens,
      static_cast<int>(work.type_rows),
      work.width,
      sums,
      stream);
}

}  // namespace accelerate::cuda::kernels
