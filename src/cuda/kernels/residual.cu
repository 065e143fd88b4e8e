// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/residual.h"
#include "cuda/kernels/strips.cuh"

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
    Floats8 x = load8(static_cast<const T*>(w.x) + i * kVector);
    if (w.bias != nullptr) {
      add(x, load8(w.bias + index_in_row(i, row_vectors) * kVector));
    }
    if (w.dropout.rate > 0.0F) {
      mask.apply(x, static_cast<std::uint64_t>(i));
    }
    if (w.residual != nullptr) {
      add(x, load8(static_cast<const T*>(w.residual) + i * kVector));
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

template <typename T, bool kIsAligned>
__global__ void __launch_bounds__(kStripBlock) residual_backward_kernel(
    const __grid_constant__ Residual w, const T* dy, T* dx, float* partial) {
  const Strip strip;
  const Mask mask(w.dropout);
  Floats8 sum = {};
  if (kIsAligned && strip.column + kVector <= w.width) {
    for_each_row<2>(
        strip,
        dy + strip.column,
        w.width,
        w.rows,
        [&](std::int64_t row, Floats8 d) {
          const std::int64_t at = row * w.width + strip.column;
          if (w.dropout.rate > 0.0F) {
            mask.apply(d, static_cast<std::uint64_t>(at) / kVector);
          }
          store8(dx + at, d);
          add(sum, d);
        });
  } else {
    for (std::int64_t i = strip.row; i < w.rows; i += strip.step) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        if (strip.column + k < w.width) {
          const std::int64_t at = i * w.width + strip.column + k;
          float d = to_float(dy[at]);
          d *= w.dropout.rate > 0.0F ? mask.at(static_cast<std::uint64_t>(at))
                                     : 1.0F;
          dx[at] = from_float<T>(d);
          sum.at[k] += d;
        }
      }
    }
  }
  write_strip(strip, sum, w.width, partial);
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
  if (work.rows > 0 && work.width > 0) {
    with_type(work.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      auto kernel = residual_backward_kernel<T, false>;
      if (work.width % kVector == 0 && is_aligned(dy) && is_aligned(dx)) {
        kernel = residual_backward_kernel<T, true>;
      }
      kernel<<<strip_grid(work.rows, work.width), strip_block(), 0, stream>>>(
          work, static_cast<const T*>(dy), static_cast<T*>(dx), workspace);
    });
  }
}

}  // namespace accelerate::cuda::kernels
