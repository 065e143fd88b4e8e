// SPDX-License-Identifier: Apache-2.0
// Helpers that save the state of a block's forward for its backward.
//
// Tensors are saved with `save_for_backward`, which frees them as soon as the
// block's backward has run. Dropout states are saved in `saved_data`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>

#include "cuda/kernels/types.h"

namespace accelerate::cuda {

/// Converts a tensor that may be undefined to the form that `Function::apply`
/// needs.
inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// Converts [B, T, D] of any floating-point type to a matrix [B T, D] in bf16.
inline at::Tensor as_rows(const at::Tensor& x_BTD) {
  return x_BTD.detach()
      .reshape({-1, x_BTD.size(-1)})
      .to(at::kBFloat16)
      .contiguous();
}

inline void save_dropout(
    torch::autograd::AutogradContext& context,
    const std::string& name,
    const kernels::Dropout& dropout) {
  const auto bits = [](const auto value) {
    return reinterpret_cast<std::int64_t>(value);
  };
  context.saved_data[name + "_rate"] = static_cast<double>(dropout.rate);
  context.saved_data[name] = std::vector<std::int64_t>{
      bits(dropout.random.seed_at),
      bits(dropout.random.offset_at),
      static_cast<std::int64_t>(dropout.random.seed),
      static_cast<std::int64_t>(dropout.random.offset)};
}

inline kernels::Dropout saved_dropout(
    torch::autograd::AutogradContext& context, const std::string& name) {
  const auto words = context.saved_data[name].toIntVector();
  const auto pointer = [](std::int64_t word) {
    return reinterpret_cast<const std::int64_t*>(word);
  };
  return {
      static_cast<float>(context.saved_data[name + "_rate"].toDouble()),
      {pointer(words[0]),
       pointer(words[1]),
       static_cast<std::uint64_t>(words[2]),
       static_cast<std::uint64_t>(words[3])}};
}

}  // namespace accelerate::cuda
