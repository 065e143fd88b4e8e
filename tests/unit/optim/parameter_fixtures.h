// SPDX-License-Identifier: Apache-2.0
// Parameters, gradients and comparisons for tests of optimizers.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace accelerate {

using Tensors = std::vector<at::Tensor>;

/// Returns parameters of several shapes and layouts. Each call returns the same
/// values.
inline Tensors make_parameters(at::ScalarType type = at::kFloat) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  Tensors parameters;
  const auto add = [&](const at::Tensor& values) {
    parameters.push_back(values.to(type).requires_grad_());
  };
  add(at::randn({5, 3}, generator));
  add(at::randn({7}, generator));
  add(at::randn({}, generator));
  add(at::randn({4, 6}, generator).t());  // Dense, but not row-major.
  add(at::randn({0, 3}, generator));
  // More elements than fit in a vector register.
  add(at::randn({2, 1030}, generator));
  return parameters;
}

/// Sets the gradients for step number `step`. About one gradient in seven is
/// missing. All gradients are row-major, regardless of the layout of the
/// parameter.
inline void set_gradients(Tensors& parameters, int step) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      static_cast<std::uint64_t>(1000 + step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor gradient = at::randn(parameters[i].sizes(), generator);
    const bool missing = (static_cast<int>(i) + step) % 7 == 3;
    parameters[i].mutable_grad() =
        missing ? at::Tensor() : gradient.to(parameters[i].scalar_type());
  }
}

/// Returns the largest absolute difference between corresponding elements,
/// relative to the largest absolute element of the tensor in `b`.
inline double largest_difference(const Tensors& a, const Tensors& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].numel() == 0) {
      continue;
    }
    const double scale = b[i].abs().max().item<double>();
    const double difference = (a[i] - b[i]).abs().max().item<double>();
    largest = std::max(largest, difference / scale);
  }
  return largest;
}

inline Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.detach().clone());
  }
  return result;
}

inline bool bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) {
    return a.defined() == b.defined();
  }
  const at::Tensor x = a.detach().contiguous();
  const at::Tensor y = b.detach().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.nbytes() == 0 ||
          std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0);
}

inline void expect_bitwise_equal(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(a[i], b[i])) << "tensor " << i;
  }
}

}  // namespace accelerate
