// SPDX-License-Identifier: Apache-2.0
// What a block keeps from forward to backward, by position.
//
// Tensors go through `save_for_backward`, which lets them go as soon as the
// block's backward has run; the rest is small.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>

#include "cuda/kernels/types.h"

namespace accelerate::cuda {

/// An argument that may be undefined, as `Function::apply` wants it.
inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// [B, T, D] in any floating type as rows in bf16.
inline at::Tensor as_rows(const at::Tensor& x_BTD) {
  return x_BTD.detach()
      .reshape({-1, x_BTD.size(-1)})
      .to(at::kBFloat16)
      .contiguous();
}

inline void keep(
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

inline kernels::Dropout kept(
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
