// SPDX-License-Identifier: Apache-2.0
#include "transformers/fused.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include "transformers/layers.h"

namespace transformers {

const accelerate::FusedBlocks* fused_path_of(c10::Device device) {
  const bool is_bf16_on_gpu =
      device.is_cuda() && at::autocast::is_autocast_enabled(at::kCUDA) &&
      at::autocast::get_autocast_dtype(at::kCUDA) == at::kBFloat16;
  return is_bf16_on_gpu ? accelerate::fused_blocks() : nullptr;
}

const accelerate::FusedBlocks* fused_path(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kFloat
             ? fused_path_of(parameter.device())
             : nullptr;
}

at::Tensor apply_linear(const Linear& layer, const at::Tensor& x) {
  const auto* const fused = fused_path(layer.weight_ED);
  return fused != nullptr ? fused->linear(x, layer.weight_ED, layer.bias_E)
                          : layer(x);
}

bool can_fuse_heads(std::int64_t head_dim, std::int64_t tokens) {
  // cuDNN's limits; it has no kernel for fewer than eight tokens either. Its
  // deterministic replacement needs aligned mask rows.
  const bool is_deterministic = at::globalContext().deterministicAlgorithms();
  return head_dim % 8 == 0 && head_dim <= 128 && tokens >= 8 &&
         (!is_deterministic || tokens % 8 == 0);
}

at::Tensor mask_bias(const AttentionMask& mask, const at::Tensor& hidden_BTD) {
  if (!mask.allowed.defined()) {
    return {};
  }
  // Far below any score, yet finite: a row that may attend to nothing attends
  // to everything instead of becoming nan.
  constexpr double kHidden = -30000.0;
  const std::int64_t tokens = hidden_BTD.size(1);
  const at::NoGradGuard no_grad;
  const auto bias =
      at::rsub(mask.allowed.to(at::kBFloat16), kHidden, kHidden)
          .expand({hidden_BTD.size(0), mask.allowed.size(1), tokens, tokens});
  // The kernel for short sequences does not need a row for each query.
  return tokens <= accelerate::kShortSequence ? bias : bias.contiguous();
}

}  // namespace transformers
