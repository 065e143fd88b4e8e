// SPDX-License-Identifier: Apache-2.0
// Helpers for the kernels: 16-byte accesses, reductions, dropout masks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

constexpr int kWarp = 32;
constexpr int kVector = 8;  ///< Elements that a thread accesses at once.

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Returns the number of thread blocks that fills every SM with `blocks_per_sm`
/// blocks, but at most `work`.
inline int grid_of(std::int64_t work, int blocks_per_sm) {
  static const int num_sms = [] {
    int device = 0;
    int count = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
  }();
  const std::int64_t max_blocks =
      static_cast<std::int64_t>(num_sms) * blocks_per_sm;
  return static_cast<int>(work < max_blocks ? work : max_blocks);
}

/// Returns the index of vector `i` of a matrix within its row. Each row has
/// `row_vectors` vectors of `kVector` elements. Avoids 64-bit division where
/// possible, because a division takes as long as loading a vector from memory.
__device__ __forceinline__ std::int64_t index_in_row(
    std::int64_t i, std::int64_t row_vectors) {
  return i >> 32 == 0 ? static_cast<std::int64_t>(
                            static_cast<unsigned>(i) %
                            static_cast<unsigned>(row_vectors))
                      : i % row_vectors;
}

template <typename T>
__device__ __forceinline__ float to_float(T value) {
  return static_cast<float>(value);
}
template <typename T>
__device__ __forceinline__ T from_float(float value) {
  return static_cast<T>(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ __forceinline__ __half from_float(float value) {
  return __float2half_rn(value);
}

/// Eight neighboring elements, converted from their storage type to fp32.
struct Floats8 {
  float at[kVector];
};

__device__ __forceinline__ void add(Floats8& x, const Floats8& other) {
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    x.at[k] += other.at[k];
  }
}

/// Eight neighboring elements in their storage type. Prefetched data takes
/// fewer registers in this form.
template <typename T>
struct Packed8 {
  uint4 bits;
};
template <>
struct Packed8<float> {
  float4 low, high;
};

template <typename T>
__device__ __forceinline__ Packed8<T> load_packed(const T* from) {
  return {*reinterpret_cast<const uint4*>(from)};
}
__device__ __forceinline__ Packed8<float> load_packed(const float* from) {
  const auto* const at = reinterpret_cast<const float4*>(from);
  return {at[0], at[1]};
}

__device__ __forceinline__ Floats8 unpack(const Packed8<float>& p) {
  return {
      {p.low.x,
       p.low.y,
       p.low.z,
       p.low.w,
       p.high.x,
       p.high.y,
       p.high.z,
       p.high.w}};
}
__device__ __forceinline__ Floats8 unpack(const Packed8<__nv_bfloat16>& p) {
  const unsigned words[4] = {p.bits.x, p.bits.y, p.bits.z, p.bits.w};
  Floats8 result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // A bf16 is the upper half of a float.
    result.at[2 * i] = __uint_as_float(words[i] << 16);
    result.at[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
  return result;
}
__device__ __forceinline__ Floats8 unpack(const Packed8<__half>& p) {
  const unsigned words[4] = {p.bits.x, p.bits.y, p.bits.z, p.bits.w};
  Floats8 result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair =
        __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
    result.at[2 * i] = pair.x;
    result.at[2 * i + 1] = pair.y;
  }
  return result;
}

template <typename T>
__device__ __forceinline__ Floats8 load8(const T* from) {
  return unpack(load_packed(from));
}

__device__ __forceinline__ unsigned pair_bits(
    float a, float b, __nv_bfloat16*) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ unsigned pair_bits(float a, float b, __half*) {
  const __half2 pair = __floats2half2_rn(a, b);
  return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ __forceinline__ void store8(float* to, const Floats8& x) {
  reinterpret_cast<float4*>(to)[0] = {x.at[0], x.at[1], x.at[2], x.at[3]};
  reinterpret_cast<float4*>(to)[1] = {x.at[4], x.at[5], x.at[6], x.at[7]};
}
template <typename T>
__device__ __forceinline__ void store8(T* to, const Floats8& x) {
  *reinterpret_cast<uint4*>(to) = {
      pair_bits(x.at[0], x.at[1], to),
      pair_bits(x.at[2], x.at[3], to),
      pair_bits(x.at[4], x.at[5], to),
      pair_bits(x.at[6], x.at[7], to)};
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

/// Sums `value` over all `kThreads` threads in a block, or over one warp if
/// `kThreads` is 32. Every thread gets the result. `scratch` must have one
/// float for each warp, and can be reused after the next barrier.
template <int kThreads>
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  value = warp_sum(value);
  if constexpr (kThreads == kWarp) {
    return value;
  } else {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    __syncthreads();
    if (threadIdx.x % kWarp == 0) {
      scratch[warp] = value;
    }
    __syncthreads();
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kThreads / kWarp; ++i) {
      sum += scratch[i];
    }
    return sum;
  }
}

/// Philox 4x32 with seven rounds. Returns 128 random bits for each combination
/// of seed, offset and index.
__device__ __forceinline__ uint4
philox(std::uint64_t seed, std::uint64_t offset, std::uint64_t index) {
  uint4 c = {
      static_cast<unsigned>(offset),
      static_cast<unsigned>(offset >> 32),
      static_cast<unsigned>(index),
      static_cast<unsigned>(index >> 32)};
  uint2 key = {static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53U, c.x);
    const unsigned low0 = 0xD2511F53U * c.x;
    const unsigned high1 = __umulhi(0xCD9E8D57U, c.z);
    const unsigned low1 = 0xCD9E8D57U * c.z;
    c = {high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0};
    key.x += 0x9E3779B9U;
    key.y += 0xBB67AE85U;
  }
  return c;
}

/// A dropout mask, which is generated for eight elements at a time.
class Mask {
 public:
  __device__ explicit Mask(const Dropout& dropout)
      : threshold_(static_cast<unsigned>(dropout.rate * 65536.0F + 0.5F)),
        scale_(
            threshold_ < 65536U
                ? 65536.0F / static_cast<float>(65536U - threshold_)
                : 0.0F),
        seed_(
            dropout.random.seed_at != nullptr
                ? static_cast<std::uint64_t>(*dropout.random.seed_at)
                : dropout.random.seed),
        offset_(
            dropout.random.offset +
            (dropout.random.offset_at != nullptr
                 ? static_cast<std::uint64_t>(*dropout.random.offset_at)
                 : 0U)) {}

  /// Applies the mask to eight elements; the first has the index 8 * `group`.
  __device__ __forceinline__ void apply(Floats8& x, std::uint64_t group) const {
    const uint4 bits = philox(seed_, offset_, group);
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const unsigned draw = (words[i / 2] >> (16 * (i % 2))) & 0xffffU;
      x.at[i] = draw >= threshold_ ? x.at[i] * scale_ : 0.0F;
    }
  }

  /// Returns the factor for one element: 0 if the element is dropped.
  __device__ __forceinline__ float at(std::uint64_t element) const {
    const uint4 bits = philox(seed_, offset_, element / kVector);
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
    const unsigned index = static_cast<unsigned>(element % kVector);
    unsigned word = words[0];
#pragma unroll
    for (unsigned i = 1; i < 4; ++i) {
      word = index / 2 == i ? words[i] : word;
    }
    const unsigned draw = (word >> (16 * (index % 2))) & 0xffffU;
    return draw >= threshold_ ? scale_ : 0.0F;
  }

 private:
  unsigned threshold_;
  float scale_;
  std::uint64_t seed_;
  std::uint64_t offset_;
};

/// Calls `f` with a null `T*`, where T is the C++ type that `type` stands for.
template <typename F>
void with_type(Type type, F f) {
  switch (type) {
    case Type::f32:
      return f(static_cast<float*>(nullptr));
    case Type::f16:
      return f(static_cast<__half*>(nullptr));
    case Type::bf16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
  }
}

}  // namespace accelerate::cuda::kernels
