// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/narrow_linear.h"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxOutputs = NarrowLinear::kMaxOutputs;

// One warp for each value of y.
template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp)
    narrow_linear_kernel(const __grid_constant__ NarrowLinear w, float* y) {
  const std::int64_t at =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (at >= w.rows * w.outputs) {
    return;
  }
  const std::int64_t row = at / w.outputs;
  const std::int64_t output = at % w.outputs;
  const T* const x = static_cast<const T*>(w.x) + row * w.stride;
  const float* const weight = w.weight + output * w.width;
  float sum = 0.0F;
#pragma unroll 8
  for (std::int64_t j = threadIdx.x % kWarp; j < w.width; j += kWarp) {
    sum += to_float(x[j]) * weight[j];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) {
    y[at] = sum + (w.bias != nullptr ? w.bias[output] : 0.0F);
  }
}

constexpr int kColumns = 32;
constexpr int kLines = kMaxOutputs;  // One line of threads for each bias.

// A thread block handles 32 columns. The rows are divided among its lines of
// threads, whose sums are then reduced.
template <typename T>
__global__ void __launch_bounds__(kColumns* kLines)
    narrow_linear_backward_kernel(
        const __grid_constant__ NarrowLinear w,
        const __grid_constant__ NarrowLinearGradients g) {
  __shared__ float folded[kLines][kMaxOutputs][kColumns];
  const int line = static_cast<int>(threadIdx.y);
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const bool in_range = column < w.width;
  float weight[kMaxOutputs] = {};
  float sums[kMaxOutputs] = {};
#pragma unroll
  for (int e = 0; e < kMaxOutputs; ++e) {
    if (e < w.outputs && in_range) {
      weight[e] = w.weight[e * w.width + column];
    }
  }
  if (in_range) {
    for (std::int64_t row = line; row < w.rows; row += kLines) {
      const float x =
          to_float(static_cast<const T*>(w.x)[row * w.stride + column]);
      float d = 0.0F;
#pragma unroll
      for (int e = 0; e < kMaxOutputs; ++e) {
        if (e < w.outputs) {
          const float dy = g.dy[row * w.outputs + e];
          d += dy * weight[e];
          sums[e] += dy * x;
        }
      }
      static_cast<T*>(g.dx)[row * w.width + column] = from_float<T>(d);
    }
  }
#pragma unroll
  for (int e = 0; e < kMaxOutputs; ++e) {
    folded[line][e][threadIdx.x] = sums[e];
  }
  __syncthreads();
  if (line >= w.outputs) {
    return;
  }
  if (in_range) {
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      total += folded[i][line][threadIdx.x];
    }
    g.d_weight[line * w.width + column] = total;
  }
  if (blockIdx.x == 0 && g.d_bias != nullptr) {
    float sum = 0.0F;
    for (std::int64_t row = threadIdx.x; row < w.rows; row += kColumns) {
      sum += g.dy[row * w.outputs + line];
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) {
      g.d_bias[line] = sum;
    }
  }
}
static_assert(kColumns == kWarp);

}  // namespace

void narrow_linear(const NarrowLinear& work, float* y, cudaStream_t stream) {
  const std::int64_t values = work.rows * work.outputs;
  if (values == 0) {
    return;
  }
  with_type(work.type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    narrow_linear_kernel<T>
        <<<static_cast<unsigned>(ceil_div(values, kWarps)),
           kWarps * kWarp,
           0,
           stream>>>(work, y);
  });
}

void narrow_linear_backward(
    const NarrowLinear& work,
    const NarrowLinearGradients& gradients,
    cudaStream_t stream) {
  if (work.width == 0) {
    return;
  }
  with_type(work.type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    narrow_linear_backward_kernel<T>
        <<<static_cast<unsigned>(ceil_div(work.width, kColumns)),
           dim3(kColumns, kLines),
           0,
           stream>>>(work, gradients);
  });
}

}  // namespace accelerate::cuda::kernels
