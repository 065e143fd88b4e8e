// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/cross_entropy.h"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kThreads = 512;

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.69314718F;

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Online softmax: the running maximum and the sum of exp(x - max), in powers of
// two.
struct Softmax {
  float max = -INFINITY;  // Times log2(e).
  float sum = 0.0F;

  __device__ __forceinline__ void raise_max(float x) {
    if (x > max) {
      sum *= exp2_approx(max - x);  // 0 at first: exp2(-inf).
      max = x;
    }
  }
  __device__ __forceinline__ void add(float x) {
    raise_max(x * kLog2E);
    sum += exp2_approx(x * kLog2E - max);
  }
  __device__ __forceinline__ void add(const Floats8& x) {
    float vector_max = x.at[0];
#pragma unroll
    for (int k = 1; k < kVector; ++k) {
      vector_max = fmaxf(vector_max, x.at[k]);
    }
    raise_max(vector_max * kLog2E);
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      sum += exp2_approx(fmaf(x.at[k], kLog2E, -max));
    }
  }
  __device__ __forceinline__ void merge(float other, float other_sum) {
    const float new_max = fmaxf(max, other);
    // A thread without columns has max = -inf and sum = 0, which must not
    // become nan.
    sum = (sum > 0.0F ? sum * exp2_approx(max - new_max) : 0.0F) +
          (other_sum > 0.0F ? other_sum * exp2_approx(other - new_max) : 0.0F);
    max = new_max;
  }
};

__device__ Softmax block_merged(Softmax local, float* scratch) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffU, local.max, offset);
    const float sum = __shfl_xor_sync(0xffffffffU, local.sum, offset);
    local.merge(other, sum);
  }
  constexpr int kWarps = kThreads / kWarp;
  if (threadIdx.x % kWarp == 0) {
    scratch[threadIdx.x / kWarp] = local.max;
    scratch[kWarps + threadIdx.x / kWarp] = local.sum;
  }
  __syncthreads();
  Softmax total;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    total.merge(scratch[i], scratch[kWarps + i]);
  }
  return total;
}

template <typename T, bool kIsVector>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(const __grid_constant__ CrossEntropy w) {
  __shared__ float scratch[2 * kThreads / kWarp];
  const std::int64_t row = blockIdx.x;
  T* const logits = static_cast<T*>(w.logits) + row * w.stride;
  const std::int64_t label = w.labels[row];
  const float scale = *w.scale;
  const std::int64_t vector_end =
      kIsVector ? w.classes / kVector * kVector : std::int64_t{0};
  if (label < 0 || label >= w.classes) {
    for (std::int64_t j = threadIdx.x * kVector; j < vector_end;
         j += kThreads * kVector) {
      store8(logits + j, Floats8{});
    }
    for (std::int64_t j = vector_end + threadIdx.x; j < w.columns;
         j += kThreads) {
      logits[j] = from_float<T>(0.0F);
    }
    if (threadIdx.x == 0) {
      w.losses[row] = scale > 0.0F ? 0.0F : NAN;
    }
    return;
  }
  const float target = to_float(logits[label]);
  Softmax local;
#pragma unroll 4
  for (std::int64_t j = threadIdx.x * kVector; j < vector_end;
       j += kThreads * kVector) {
    local.add(load8(logits + j));
  }
  for (std::int64_t j = vector_end + threadIdx.x; j < w.classes;
       j += kThreads) {
    local.add(to_float(logits[j]));
  }
  // The barrier in `block_merged` also ensures that every thread has read the
  // label's logit before it is overwritten.
  const Softmax total = block_merged(local, scratch);
  // softmax * scale = exp2(x log2(e) - shift); a scale of 0 gives zeros.
  const float shift = total.max + __log2f(total.sum) - __log2f(scale);
#pragma unroll 4
  for (std::int64_t j = threadIdx.x * kVector; j < vector_end;
       j += kThreads * kVector) {
    Floats8 x = load8(logits + j);
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      x.at[k] = exp2_approx(fmaf(x.at[k], kLog2E, -shift));
    }
    if (label >= j && label < j + kVector) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        x.at[k] -= j + k == label ? scale : 0.0F;
      }
    }
    store8(logits + j, x);
  }
  for (std::int64_t j = vector_end + threadIdx.x; j < w.classes;
       j += kThreads) {
    logits[j] = from_float<T>(
        exp2_approx(fmaf(to_float(logits[j]), kLog2E, -shift)) -
        (j == label ? scale : 0.0F));
  }
  for (std::int64_t j = w.classes + threadIdx.x; j < w.columns; j += kThreads) {
    logits[j] = from_float<T>(0.0F);
  }
  if (threadIdx.x == 0) {
    w.losses[row] =
        scale > 0.0F
            ? ((total.max + __log2f(total.sum)) * kLn2 - target) * scale
            : NAN;
  }
}

constexpr int kCountThreads = 1024;

__global__ void __launch_bounds__(kCountThreads) count_labels_kernel(
    const std::int64_t* labels,
    std::int64_t count,
    std::int64_t classes,
    float* out,
    WrongLabel* wrong) {
  __shared__ int scratch[kCountThreads / kWarp];
  int local = 0;
  std::int64_t wrong_label = kIgnoredLabel;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += kCountThreads) {
    const std::int64_t label = labels[i];
    const bool is_class = label >= 0 && label < classes;
    local += is_class ? 1 : 0;
    wrong_label = is_class || label == kIgnoredLabel ? wrong_label : label;
  }
  const bool is_wrong = wrong_label != kIgnoredLabel;
  local = __reduce_add_sync(0xffffffffU, local);
  if (threadIdx.x % kWarp == 0) {
    scratch[threadIdx.x / kWarp] = local;
  }
  const bool any_wrong = __syncthreads_or(is_wrong ? 1 : 0) != 0;
  if (is_wrong) {  // Any wrong label may be reported.
    *const_cast<volatile std::int64_t*>(&wrong->label) = wrong_label;
    __threadfence_system();
    *const_cast<volatile std::int64_t*>(&wrong->classes) = classes;
  }
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int part : scratch) {
      sum += part;
    }
    out[0] = static_cast<float>(sum);
    out[1] = sum > 0 && !any_wrong ? 1.0F / static_cast<float>(sum) : 0.0F;
  }
}

}  // namespace

void count_labels(
    const std::int64_t* labels,
    std::int64_t count,
    std::int64_t classes,
    float* out,
    WrongLabel* wrong,
    cudaStream_t stream) {
  count_labels_kernel<<<1, kCountThreads, 0, stream>>>(
      labels, count, classes, out, wrong);
}

void cross_entropy(const CrossEntropy& work, cudaStream_t stream) {
  if (work.rows == 0 || work.classes == 0) {
    return;
  }
  with_type(work.type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    auto kernel = cross_entropy_kernel<T, false>;
    if (is_aligned(work.logits) && work.stride % kVector == 0) {
      kernel = cross_entropy_kernel<T, true>;
    }
    kernel<<<static_cast<unsigned>(work.rows), kThreads, 0, stream>>>(work);
  });
}

}  // namespace accelerate::cuda::kernels
