// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/numbers.h"

#include <algorithm>
#include <optional>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "cuda/kernels/numbers.h"

namespace accelerate::cuda {
namespace {

std::optional<kernels::NumberType> number_type(const at::Tensor& tensor) {
  if (tensor.is_neg()) {
    return std::nullopt;
  }
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return kernels::NumberType::f64;
    case at::kFloat:
      return kernels::NumberType::f32;
    case at::kHalf:
      return kernels::NumberType::f16;
    case at::kBFloat16:
      return kernels::NumberType::bf16;
    case at::kLong:
      return kernels::NumberType::i64;
    case at::kInt:
      return kernels::NumberType::i32;
    case at::kShort:
      return kernels::NumberType::i16;
    case at::kChar:
      return kernels::NumberType::i8;
    case at::kByte:
    case at::kBool:
      return kernels::NumberType::u8;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool copy_numbers(const std::vector<at::Tensor>& tensors, std::int64_t* to) {
  if (!std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
        return number_type(tensor).has_value();
      })) {
    return false;
  }
  const c10::cuda::CUDAGuard guard(tensors.front().device());
  const auto stream = at::cuda::getCurrentCUDAStream().stream();
  kernels::Numbers numbers;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    numbers.from[numbers.count] = tensors[i].const_data_ptr();
    numbers.types[numbers.count] = *number_type(tensors[i]);
    ++numbers.count;
    if (numbers.count == kernels::Numbers::kMax || i + 1 == tensors.size()) {
      kernels::copy_numbers(numbers, to, stream);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      to += numbers.count;
      numbers.count = 0;
    }
  }
  return true;
}

}  // namespace accelerate::cuda
