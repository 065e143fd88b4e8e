// SPDX-License-Identifier: Apache-2.0
#include "transformers/fused.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include "transformers/layers.h"

namespace transformers {

const accelerate::FusedBlocks* fused_path_of(c10::Device device) {
  const bool is_meant =
      device.is_cuda() && at::autocast::is_autocast_enabled(at::kCUDA) &&
      at::autocast::get_autocast_dtype(at::kCUDA) == at::kBFloat16;
  return is_meant ? accelerate::fused_blocks() : nullptr;
}

const accelerate::FusedBlocks* fused_path(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kFloat
             ? fused_path_of(parameter.device())
             : nullptr;
}

at::Tensor one_linear(const Linear& layer, const at::Tensor& x) {
  const auto* const fused = fused_path(layer.weight_ED);
  return fused != nullptr ? fused->linear(x, layer.weight_ED, layer.bias_E)
                          : layer(x);
}

bool can_fuse_heads(std::int64_t head_dim, std::int64_t tokens) {
  // cuDNN's limits; and it has no kernel for a handful of tokens. What stands
  // in for it where results have to repeat wants rows of masks aligned.
  const bool repeats = at::globalContext().deterministicAlgorithms();
  return head_dim % 8 == 0 && head_dim <= 128 && tokens >= 8 &&
         (!repeats || tokens % 8 == 0);
}

at::Tensor mask_bias(const AttentionMask& mask, const at::Tensor& hidden_BTD) {
  if (!mask.allowed.defined()) {
    return {};
  }
  // Far below any score, yet finite: a row that may look at nothing looks at
  // everything, and is no nan.
  constexpr double kHidden = -30000.0;
  const std::int64_t tokens = hidden_BTD.size(1);
  const at::NoGradGuard no_grad;
  const auto bias =
      at::rsub(mask.allowed.to(at::kBFloat16), kHidden, kHidden)
          .expand({hidden_BTD.size(0), mask.allowed.size(1), tokens, tokens});
  // Short sequences are looked at without a row for each query.
  return tokens <= accelerate::kShortSequence ? bias : bias.contiguous();
}

}  // namespace transformers
