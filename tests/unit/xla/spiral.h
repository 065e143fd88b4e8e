// SPDX-License-Identifier: Apache-2.0
// The data and the model of examples/base.cpp.
#pragma once

#include <cmath>
#include <cstdint>

#include <ATen/ATen.h>
#include <torch/data/example.h>
#include <torch/nn.h>

namespace accelerate {

// Points on a spiral with two arms. The label is the point's arm, 0 or 1.
struct Spiral {
  std::int64_t points = 0;

  std::int64_t size() const { return points; }
  torch::data::Example<> get(std::int64_t number) const {
    const double t = 0.5 + static_cast<double>(number / 2) / 100;
    const double arm = number % 2 == 0 ? 0 : M_PI;
    return {
        at::tensor(
            {t * std::cos(t + arm) / 10, t * std::sin(t + arm) / 10},
            at::kFloat),
        at::scalar_tensor(number % 2, at::kLong)};
  }
};

inline torch::nn::Sequential make_spiral_model() {
  return torch::nn::Sequential(
      torch::nn::Linear(2, 64),
      torch::nn::Tanh(),
      torch::nn::Linear(64, 64),
      torch::nn::Tanh(),
      torch::nn::Linear(64, 2));
}

}  // namespace accelerate
