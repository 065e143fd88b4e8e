// SPDX-License-Identifier: Apache-2.0
// What the tests of kernels share: tensors as pointers, and errors against a
// reference in fp64.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

inline Type type_of(at::ScalarType type) {
  return type == at::kBFloat16 ? Type::bf16
         : type == at::kHalf   ? Type::f16
                               : Type::f32;
}

inline const std::vector<at::ScalarType>& activation_types() {
  static const std::vector<at::ScalarType> all = {
      at::kFloat, at::kHalf, at::kBFloat16};
  return all;
}

inline cudaStream_t stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

inline at::TensorOptions on_gpu(at::ScalarType type = at::kFloat) {
  return at::TensorOptions(type).device(at::kCUDA);
}

inline at::Tensor random(
    at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes, on_gpu()).to(type);
}

/// Filled with what no result may keep.
inline at::Tensor poisoned(
    at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::full(sizes, NAN, on_gpu(type));
}

inline float* floats(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}
inline void* bytes(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

/// ‖actual - expected‖ / ‖expected‖; nan stays nan.
inline double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const auto difference =
      (actual.to(at::kDouble) - expected.to(at::kDouble)).norm();
  const double norm = expected.to(at::kDouble).norm().item<double>();
  return difference.item<double>() / (norm > 0 ? norm : 1.0);
}

/// What storing a result in a type costs: its rounding, and a little.
inline double bound_of(at::ScalarType type) {
  return type == at::kBFloat16 ? 3e-3 : type == at::kHalf ? 4.5e-4 : 2e-6;
}

#define EXPECT_CLOSE(actual, expected, bound)                       \
  do {                                                              \
    const auto& actual_ = (actual);                                 \
    if (actual_.numel() > 0) {                                      \
      EXPECT_LE(error_of(actual_, (expected)), (bound)) << #actual; \
    }                                                               \
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);                     \
  } while (false)

}  // namespace accelerate::cuda::kernels
