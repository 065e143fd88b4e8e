// SPDX-License-Identifier: Apache-2.0
// Operators that are compared with the CPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace accelerate::xla {

using Tensors = std::vector<at::Tensor>;

/// A number in (-1, 1) for each element, or another range.
at::Tensor some(at::IntArrayRef sizes, double low = -1, double high = 1);
/// Whole numbers below `bound`.
at::Tensor whole(at::IntArrayRef sizes, std::int64_t bound);

struct OperatorCase {
  std::string name;
  Tensors inputs;
  std::function<at::Tensor(const Tensors&)> run;
  bool differentiable = true;
};

inline void PrintTo(const OperatorCase& made, std::ostream* out) {
  *out << made.name;
}

std::vector<OperatorCase> elementwise_cases();
std::vector<OperatorCase> reduction_cases();
std::vector<OperatorCase> layer_cases();
std::vector<OperatorCase> indexing_cases();

}  // namespace accelerate::xla
