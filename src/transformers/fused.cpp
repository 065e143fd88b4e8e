// SPDX-License-Identifier: Apache-2.0
#include "transformers/fused.h"

#include <torch/types.h>

#include "device/device_library.h"

namespace transformers {

// The fused blocks compute in bf16.
BlockChoice chosen_blocks(
    const std::optional<accelerate::AutocastPolicy>& policy) {
  const bool is_bf16 = policy &&
                       policy->precision == accelerate::Precision::bf16 &&
                       policy->autocast.enabled;
  return is_bf16
             ? BlockChoice{accelerate::fused_blocks_of(policy->device), policy->device}
             : BlockChoice{};
}

at::Tensor apply_linear(const Linear& layer, const at::Tensor& x) {
  const auto* const fused = layer.blocks_for(layer.weight_ED);
  return fused != nullptr ? fused->linear(x, layer.weight_ED, layer.bias_E)
                          : layer(x);
}

at::Tensor mask_bias(const AttentionMask& mask, const at::Tensor& hidden_BTD) {
  if (!mask.allowed.defined()) {
    return {};
  }
  // Far below any score, but finite: a row that may not attend to any token
  // then attends to all tokens instead of becoming NaN.
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
