// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/norm.h"
#include "cuda/kernels/norm_rows.cuh"

namespace accelerate::cuda::kernels {
namespace {

template <typename T>
__device__ __forceinline__ Floats8
summed(const NormForward& w, const Mask& mask, std::int64_t at, int column) {
  Floats8 x = load8(static_cast<const T*>(w.x) + at);
  if (w.bias != nullptr) {
    add(x, load8(w.bias + column));
  }
  if (w.dropout.rate > 0.0F) {
    mask.apply(x, static_cast<std::uint64_t>(at) / kVector);
  }
  if (w.residual != nullptr) {
    add(x, load8(static_cast<const T*>(w.residual) + at));
  }
  return x;
}

__device__ __forceinline__ Floats8 normed(
    const NormForward& w,
    const Floats8& x,
    int column,
    float mean,
    float rstd) {
  const Floats8 weight = load8(w.weight + column);
  Floats8 y;
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    y.at[k] = (x.at[k] - mean) * rstd * weight.at[k];
  }
  if (w.shift != nullptr) {
    add(y, load8(w.shift + column));
  }
  return y;
}

template <typename T, typename Shape>
__global__ void __launch_bounds__(Shape::kBlock)
    norm_forward_kernel(const __grid_constant__ NormForward w) {
  __shared__ float scratch[Shape::kThreads / kWarp];
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * Shape::kRows +
      Shape::row_in_block();
  if (row >= w.rows) {
    return;  // Only whole warps return, or whole blocks if there are barriers.
  }
  const Mask mask(w.dropout);
  const std::int64_t begin = row * w.width;
  Floats8 x[Shape::kVectors];
  float sum = 0.0F;
#pragma unroll
  for (int v = 0; v < Shape::kVectors; ++v) {
    const int column = Shape::column(v);
    if (column < w.width) {
      x[v] = summed<T>(w, mask, begin + column, column);
      if (w.sum != nullptr) {
        store8(static_cast<T*>(w.sum) + begin + column, x[v]);
      }
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        sum += x[v].at[k];
      }
    }
  }
  const float inverse_width = 1.0F / static_cast<float>(w.width);
  const float mean =
      w.is_rms ? 0.0F
               : block_sum<Shape::kThreads>(sum, scratch) * inverse_width;
  float squares = 0.0F;
#pragma unroll
  for (int v = 0; v < Shape::kVectors; ++v) {
    if (Shape::column(v) < w.width) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        const float centred = x[v].at[k] - mean;
        squares += centred * centred;
      }
    }
  }
  const float rstd = rsqrtf(
      block_sum<Shape::kThreads>(squares, scratch) * inverse_width + w.eps);
#pragma unroll
  for (int v = 0; v < Shape::kVectors; ++v) {
    const int column = Shape::column(v);
    if (column < w.width) {
      store8(
          static_cast<T*>(w.y) + begin + column,
          normed(w, x[v], column, mean, rstd));
    }
  }
  if (Shape::lane() == 0) {
    w.rstd[row] = rstd;
    if (w.mean != nullptr) {
      w.mean[row] = mean;
    }
  }
}

constexpr int kAnyBlock = 256;

// For rows of any width: each of three passes computes every element again.
template <typename T>
__global__ void __launch_bounds__(kAnyBlock)
    norm_forward_any_kernel(const __grid_constant__ NormForward w) {
  __shared__ float scratch[kAnyBlock / kWarp];
  const std::int64_t row = blockIdx.x;
  const Mask mask(w.dropout);
  const std::int64_t begin = row * w.width;
  const auto value = [&](std::int64_t j) {
    float x = to_float(static_cast<const T*>(w.x)[begin + j]);
    x += w.bias != nullptr ? w.bias[j] : 0.0F;
    if (w.dropout.rate > 0.0F) {
      x *= mask.at(static_cast<std::uint64_t>(begin + j));
    }
    return w.residual != nullptr
               ? x + to_float(static_cast<const T*>(w.residual)[begin + j])
               : x;
  };
  float sum = 0.0F;
  for (std::int64_t j = threadIdx.x; j < w.width; j += kAnyBlock) {
    sum += value(j);
  }
  const float inverse_width = 1.0F / static_cast<float>(w.width);
  const float mean =
      w.is_rms ? 0.0F : block_sum<kAnyBlock>(sum, scratch) * inverse_width;
  float squares = 0.0F;
  for (std::int64_t j = threadIdx.x; j < w.width; j += kAnyBlock) {
    const float centred = value(j) - mean;
    squares += centred * centred;
  }
  const float rstd =
      rsqrtf(block_sum<kAnyBlock>(squares, scratch) * inverse_width + w.eps);
  for (std::int64_t j = threadIdx.x; j < w.width; j += kAnyBlock) {
    const float x = value(j);
    // Stored after `value`, because `sum` may be the same memory as `residual`.
    if (w.sum != nullptr) {
      static_cast<T*>(w.sum)[begin + j] = from_float<T>(x);
    }
    static_cast<T*>(w.y)[begin + j] = from_float<T>(
        (x - mean) * rstd * w.weight[j] +
        (w.shift != nullptr ? w.shift[j] : 0.0F));
  }
  if (threadIdx.x == 0) {
    w.rstd[row] = rstd;
    if (w.mean != nullptr) {
      w.mean[row] = mean;
    }
  }
}

bool can_use_vectors(const NormForward& w) {
  return w.width % kVector == 0 && is_aligned(w.x) && is_aligned(w.residual) &&
         is_aligned(w.sum) && is_aligned(w.y) && is_aligned(w.bias) &&
         is_aligned(w.weight) && is_aligned(w.shift);
}

}  // namespace

void norm_forward(const NormForward& work, cudaStream_t stream) {
  if (work.rows == 0 || work.width == 0) {
    return;
  }
  with_type(work.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool done =
        can_use_vectors(work) && with_row_shape(work.width, [&](auto shape) {
          using Shape = decltype(shape);
          const auto grid =
              static_cast<unsigned>(ceil_div(work.rows, Shape::kRows));
          norm_forward_kernel<T, Shape>
              <<<grid, Shape::kBlock, 0, stream>>>(work);
        });
    if (!done) {
      norm_forward_any_kernel<T>
          <<<static_cast<unsigned>(work.rows), kAnyBlock, 0, stream>>>(work);
    }
  });
}

}  // namespace accelerate::cuda::kernels
