// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of CUDA kernels: pointers to tensors, and errors
// relative to a reference in fp64.
#pragma once

#include <cmath>
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

/// Returns a tensor filled with NaN. A kernel must overwrite all of its
/// elements.
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

/// Returns ‖actual - expected‖ / ‖expected‖; NaN if `actual` contains NaN.
inline double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const auto difference =
      (actual.to(at::kDouble) - expected.to(at::kDouble)).norm();
  const double norm = expected.to(at::kDouble).norm().item<double>();
  return difference.item<double>() / (norm > 0 ? norm : 1.0);
}

/// Returns the largest relative rounding error of a type, which is half the
/// relative distance between adjacent values.
inline double rounding_of(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-11 : 0x1p-24;
}

/// Returns the allowed relative error of a result that is computed in fp32 with
/// about twenty roundings and then rounded to `type`. For many values, uses the
/// root mean square of the last rounding error, which is 1/√3 of its maximum.
inline double bound_of(at::ScalarType type, std::int64_t values = 1) {
  const double stored = rounding_of(type) / (values < 256 ? 1.0 : std::sqrt(3));
  return stored + 20 * rounding_of(at::kFloat);
}

/// Returns the allowed relative error of a column-wise sum in fp32. Allows 20 +
/// √rows rounding errors, each relative to the sum of the absolute values.
inline double sum_bound(const at::Tensor& terms64) {
  const double rows = static_cast<double>(terms64.size(0));
  const double levels = 20 + std::sqrt(rows);
  const double without_cancellation =
      terms64.abs().sum(0).norm().item<double>();
  const double total = terms64.sum(0).norm().item<double>();
  return levels * rounding_of(at::kFloat) * without_cancellation /
         (total > 0 ? total : 1.0);
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
