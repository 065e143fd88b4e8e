// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/numbers.h"

namespace accelerate::cuda::kernels {
namespace {

template <typename T>
__device__ std::int64_t integer_at(const void* from) {
  return static_cast<std::int64_t>(*static_cast<const T*>(from));
}

template <typename T>
__device__ std::int64_t real_at(const void* from) {
  return __double_as_longlong(
      static_cast<double>(*static_cast<const T*>(from)));
}

template <typename T>
__device__ std::int64_t short_real_at(const void* from) {
  return __double_as_longlong(
      static_cast<double>(static_cast<float>(*static_cast<const T*>(from))));
}

__device__ std::int64_t slot_of(NumberType type, const void* from) {
  switch (type) {
    case NumberType::f64:
      return real_at<double>(from);
    case NumberType::f32:
      return real_at<float>(from);
    case NumberType::f16:
      return short_real_at<__half>(from);
    case NumberType::bf16:
      return short_real_at<__nv_bfloat16>(from);
    case NumberType::i64:
      return integer_at<std::int64_t>(from);
    case NumberType::i32:
      return integer_at<std::int32_t>(from);
    case NumberType::i16:
      return integer_at<std::int16_t>(from);
    case NumberType::i8:
      return integer_at<std::int8_t>(from);
    case NumberType::u8:
      return integer_at<std::uint8_t>(from);
  }
  return 0;
}

__global__ void copy_numbers_kernel(const Numbers numbers, std::int64_t* to) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < numbers.count) {
    to[i] = slot_of(numbers.types[i], numbers.from[i]);
  }
}

}  // namespace

void copy_numbers(
    const Numbers& numbers, std::int64_t* to, cudaStream_t stream) {
  if (numbers.count > 0) {
    copy_numbers_kernel<<<1, Numbers::kMax, 0, stream>>>(numbers, to);
  }
}

}  // namespace accelerate::cuda::kernels
