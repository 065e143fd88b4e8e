// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/residual.h"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    residual_kernel(const __grid_constant__ Residual w, T* y) {
  const Mask mask(w.dropout);
  const std::int64_t vectors = w.rows * w.width / kVector;
  const std::int64_t row_vectors = w.width / kVector;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < vectors;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    Float8 x = load8(static_cast<const T*>(w.x) + i * kVector);
    if (w.bias != nullptr) {
      const Float8 bias = load8(w.bias + i % row_vectors * kVector);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        x.at[k] += bias.at[k];
      }
    }
    if (w.dropout.rate > 0.0F) {
      mask.apply(x, static_cast<std::uint64_t>(i));
    }
    if (w.residual != nullptr) {
      const Float8 r = load8(static_cast<const T*>(w.residual) + i * kVector);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        x.at[k] += r.at[k];
      }
    }
    store8(y + i * kVector, x);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    residual_any_kernel(const __grid_constant__ Residual w, T* y) {
  const Mask mask(w.dropout);
  const std::int64_t size = w.rows * w.width;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < size;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    float x = to_float(static_cast<const T*>(w.x)[i]);
    x += w.bias != nullptr ? w.bias[i % w.width] : 0.0F;
    x *= w.dropout.rate > 0.0F ? mask.at(static_cast<std::uint64_t>(i)) : 1.0F;
    x += w.residual != nullptr ? to_float(static_cast<const T*>(w.residual)[i])
                               : 0.0F;
    y[i] = from_float<T>(x);
  }
}

constexpr int kStripThreads = 32;  // Times eight columns.
constexpr int kStripLines = 8;

template <typename T, bool kIsAligned>
__global__ void __launch_bounds__(kStripThreads* kStripLines)
    residual_backward_kernel(
        const __grid_constant__ Residual w,
        const T* dy,
        T* dx,
        float* partial) {
  __shared__ float folded[kStripLines][kVector][kStripThreads];
  const Mask mask(w.dropout);
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x) * kStripThreads + threadIdx.x) *
      kVector;
  const bool is_whole = kIsAligned && column + kVector <= w.width;
  Float8 sum = {};
#pragma unroll 2
  for (std::int64_t i = blockIdx.y * kStripLines + threadIdx.y;
       i < w.rows && column < w.width;
       i += static_cast<std::int64_t>(gridDim.y) * kStripLines) {
    const std::int64_t at = i * w.width + column;
    if (is_whole) {
      Float8 d = load8(dy + at);
      if (w.dropout.rate > 0.0F) {
        mask.apply(d, static_cast<std::uint64_t>(at) / kVector);
      }
      store8(dx + at, d);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        sum.at[k] += d.at[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        if (column + k < w.width) {
          float d = to_float(dy[at + k]);
          d *= w.dropout.rate > 0.0F
                   ? mask.at(static_cast<std::uint64_t>(at + k))
                   : 1.0F;
          dx[at + k] = from_float<T>(d);
          sum.at[k] += d;
        }
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    folded[threadIdx.y][k][threadIdx.x] = sum.at[k];
  }
  __syncthreads();
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kStripLines; ++i) {
    total += folded[i][threadIdx.y][threadIdx.x];
  }
  if (column + threadIdx.y < w.width) {
    partial[blockIdx.y * w.width + column + threadIdx.y] = total;
  }
}

}  // namespace

void residual_forward(const Residual& work, void* y, cudaStream_t stream) {
  const std::int64_t size = work.rows * work.width;
  if (size == 0) {
    return;
  }
  with_type(work.type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    if (work.width % kVector == 0 && is_aligned(work.x) && is_aligned(y) &&
        is_aligned(work.residual) && is_aligned(work.bias)) {
      residual_kernel<T>
          <<<grid_of(ceil_div(size / kVector, kThreads), 8),
             kThreads,
             0,
             stream>>>(work, static_cast<T*>(y));
    } else {
      residual_any_kernel<T>
          <<<grid_of(ceil_div(size, kThreads), 8), kThreads, 0, stream>>>(
              work, static_cast<T*>(y));
    }
  });
}

void residual_backward(
    const Residual& work,
    const void* dy,
    void* dx,
    float* workspace,
    cudaStream_t stream) {
  const std::int64_t parts = column_parts(work.rows, work.width);
  if (work.rows > 0 && work.width > 0) {
    const dim3 grid(
        static_cast<unsigned>(ceil_div(work.width, kStripThreads * kVector)),
        static_cast<unsigned>(parts));
    with_type(work.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      auto kernel = residual_backward_kernel<T, false>;
      if (work.width % kVector == 0 && is_aligned(dy) && is_aligned(dx)) {
        kernel = residual_backward_kernel<T, true>;
      }
      kernel<<<grid, dim3(kStripThreads, kStripLines), 0, stream>>>(
          work, static_cast<const T*>(dy), static_cast<T*>(dx), workspace);
    });
  }
}

}  // namespace accelerate::cuda::kernels
