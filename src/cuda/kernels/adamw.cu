// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/kernels/adamw.h"
#include "cuda/kernels/common.cuh"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kMaxTensors = 400;  // The table is passed as kernel parameters.
constexpr int kThreads = 256;
constexpr int kChunk = 4096;  // Elements per thread block.

struct Table {
  AdamWTensor tensors[kMaxTensors];
  int first_chunk[kMaxTensors + 1];
  int count;
};
static_assert(sizeof(Table) + sizeof(AdamWArguments) <= 32000);

// The factors that are the same for every element of a step.
struct Factors {
  float lr_over_correction1;
  float inverse_sqrt_correction2;
  float keep;  // 1 - lr * weight_decay
  float inverse_scale;
};

__device__ Factors
factors_of(const AdamWArguments& arguments, const AdamWTensor& tensor) {
  const double lr = arguments.lr_at != nullptr
                        ? static_cast<double>(*arguments.lr_at)
                        : arguments.lr;
  const double step = static_cast<double>(*tensor.step_at);
  // Computed in double, because 1 - 0.999^1 would have only three correct
  // digits in float.
  const double correction1 = 1.0 - pow(arguments.beta1, step);
  const double correction2 = 1.0 - pow(arguments.beta2, step);
  const float scale =
      arguments.grad_scale_at != nullptr ? *arguments.grad_scale_at : 1.0F;
  return {
      static_cast<float>(lr / correction1),
      static_cast<float>(1.0 / sqrt(correction2)),
      static_cast<float>(1.0 - lr * arguments.weight_decay),
      (arguments.maximize ? -1.0F : 1.0F) / scale};
}

struct Betas {
  float beta1, beta2, eps;
};

__device__ __forceinline__ void update(
    float& parameter,
    float gradient,
    float& exp_avg,
    float& exp_avg_sq,
    const Factors& f,
    const Betas& b) {
  gradient *= f.inverse_scale;
  exp_avg += (1.0F - b.beta1) * (gradient - exp_avg);
  exp_avg_sq = b.beta2 * exp_avg_sq + (1.0F - b.beta2) * gradient * gradient;
  const float denominator =
      sqrtf(exp_avg_sq) * f.inverse_sqrt_correction2 + b.eps;
  parameter =
      parameter * f.keep - f.lr_over_correction1 * exp_avg / denominator;
}

__device__ int tensor_of(const Table& table, int chunk) {
  int low = 0;
  int high = table.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (chunk >= table.first_chunk[middle] ? low : high) = middle;
  }
  return low;
}

template <typename G>
__device__ void update_scalars(
    const AdamWTensor& tensor,
    std::int64_t begin,
    std::int64_t end,
    const Factors& f,
    const Betas& b) {
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    update(
        tensor.parameter[i],
        to_float(static_cast<const G*>(tensor.gradient)[i]),
        tensor.exp_avg[i],
        tensor.exp_avg_sq[i],
        f,
        b);
    if (tensor.bf16_copy != nullptr) {
      static_cast<__nv_bfloat16*>(tensor.bf16_copy)[i] =
          from_float<__nv_bfloat16>(tensor.parameter[i]);
    }
  }
}

// Elements per access. With four elements, neighboring threads access whole
// cache lines; eight fp32 values would need a second access for half of each
// line.
constexpr int kGroup = 4;
constexpr int kGroups = 1;  // Groups prefetched at once; more would be slower.

struct Floats4 {
  float at[kGroup];
};

__device__ __forceinline__ Floats4 load4(const float* from) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  return {{x.x, x.y, x.z, x.w}};
}
template <typename G>
__device__ __forceinline__ Floats4 load4(const G* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  const auto* const values = reinterpret_cast<const G*>(&bits);
  return {
      {to_float(values[0]),
       to_float(values[1]),
       to_float(values[2]),
       to_float(values[3])}};
}
// Uses streaming stores, because the results are not read again soon and should
// not evict other data from the cache. Streaming loads would be 7 % slower on
// an H200.
__device__ __forceinline__ void stream_out(float* to, const Floats4& x) {
  __stcs(
      reinterpret_cast<float4*>(to),
      make_float4(x.at[0], x.at[1], x.at[2], x.at[3]));
}
__device__ __forceinline__ void store4(__nv_bfloat16* to, const Floats4& x) {
  *reinterpret_cast<uint2*>(to) = {
      pair_bits(x.at[0], x.at[1], to), pair_bits(x.at[2], x.at[3], to)};
}

struct Group {
  Floats4 gradient, parameter, exp_avg, exp_avg_sq;
};

__device__ __forceinline__ std::int64_t group_index(std::int64_t first, int n) {
  return first + n * kThreads * kGroup;
}

template <typename G>
__device__ __forceinline__ void load_groups(
    const AdamWTensor& tensor,
    std::int64_t first,
    std::int64_t end,
    Group (&groups)[kGroups]) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n) {
    const std::int64_t i = group_index(first, n);
    if (i < end) {
      groups[n] = {
          load4(static_cast<const G*>(tensor.gradient) + i),
          load4(tensor.parameter + i),
          load4(tensor.exp_avg + i),
          load4(tensor.exp_avg_sq + i)};
    }
  }
}

__device__ __forceinline__ void update_groups(
    const AdamWTensor& tensor,
    std::int64_t first,
    std::int64_t end,
    Group (&groups)[kGroups],
    const Factors& f,
    const Betas& b) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n) {
    const std::int64_t i = group_index(first, n);
    if (i < end) {
      Group& g = groups[n];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        update(
            g.parameter.at[k],
            g.gradient.at[k],
            g.exp_avg.at[k],
            g.exp_avg_sq.at[k],
            f,
            b);
      }
      stream_out(tensor.parameter + i, g.parameter);
      stream_out(tensor.exp_avg + i, g.exp_avg);
      stream_out(tensor.exp_avg_sq + i, g.exp_avg_sq);
      if (tensor.bf16_copy != nullptr) {
        store4(static_cast<__nv_bfloat16*>(tensor.bf16_copy) + i, g.parameter);
      }
    }
  }
}

__device__ __forceinline__ bool is_aligned_here(const AdamWTensor& t) {
  const auto bits = reinterpret_cast<std::uintptr_t>(t.parameter) |
                    reinterpret_cast<std::uintptr_t>(t.gradient) |
                    reinterpret_cast<std::uintptr_t>(t.exp_avg) |
                    reinterpret_cast<std::uintptr_t>(t.exp_avg_sq) |
                    reinterpret_cast<std::uintptr_t>(t.bf16_copy);
  return bits % 16 == 0;
}

template <typename G>
__global__ void __launch_bounds__(kThreads) adamw_kernel(
    const __grid_constant__ Table table,
    const __grid_constant__ AdamWArguments arguments) {
  if (arguments.found_inf_at != nullptr && *arguments.found_inf_at != 0.0F) {
    return;
  }
  __shared__ Factors shared;
  const int chunk = static_cast<int>(blockIdx.x);
  const int index = tensor_of(table, chunk);
  const AdamWTensor& tensor = table.tensors[index];
  const std::int64_t begin =
      static_cast<std::int64_t>(chunk - table.first_chunk[index]) * kChunk;
  const std::int64_t end =
      begin + kChunk < tensor.size ? begin + kChunk : tensor.size;
  const std::int64_t vector_end =
      is_aligned_here(tensor) ? begin + (end - begin) / kGroup * kGroup : begin;
  Group groups[kGroups];
  std::int64_t first = begin + threadIdx.x * kGroup;
  // Prefetched while the powers are computed.
  load_groups<G>(tensor, first, vector_end, groups);
  if (threadIdx.x == 0) {
    shared = factors_of(arguments, tensor);
  }
  __syncthreads();
  const Factors f = shared;
  const Betas b = {
      static_cast<float>(arguments.beta1),
      static_cast<float>(arguments.beta2),
      static_cast<float>(arguments.eps)};
  while (first < vector_end) {
    update_groups(tensor, first, vector_end, groups, f, b);
    first = group_index(first, kGroups);
    load_groups<G>(tensor, first, vector_end, groups);
  }
  update_scalars<G>(tensor, vector_end, end, f, b);
}

}  // namespace

void adamw(
    const AdamWTensor* tensors,
    int count,
    const AdamWArguments& arguments,
    cudaStream_t stream) {
  for (int first = 0; first < count; first += kMaxTensors) {
    Table table;
    table.count = std::min(count - first, kMaxTensors);
    int chunks = 0;
    for (int i = 0; i < table.count; ++i) {
      table.tensors[i] = tensors[first + i];
      table.first_chunk[i] = chunks;
      chunks += static_cast<int>(ceil_div(tensors[first + i].size, kChunk));
    }
    table.first_chunk[table.count] = chunks;
    if (chunks == 0) {
      continue;
    }
    with_type(arguments.gradient_type, [&](auto* type) {
      using G = std::remove_pointer_t<decltype(type)>;
      adamw_kernel<G><<<static_cast<unsigned>(chunks), kThreads, 0, stream>>>(
          table, arguments);
    });
  }
}

}  // namespace accelerate::cuda::kernels
