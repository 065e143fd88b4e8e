// SPDX-License-Identifier: Apache-2.0
// Operators whose results on XLA are compared with those on the CPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace accelerate::xla {

using Tensors = std::vector<at::Tensor>;

/// Returns a tensor of random f64 numbers between `low` and `high`.
at::Tensor some(at::IntArrayRef sizes, double low = -1, double high = 1);
/// Returns a tensor of random whole numbers in [0, `bound`).
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
