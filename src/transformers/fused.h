// SPDX-License-Identifier: Apache-2.0
// Chooses between fused blocks and the reference path, and prepares the inputs
// that fused blocks need.
//
// The choice is made once, in `prepare`: for bf16, models use the fused blocks
// that the device's library provides. Without `prepare`, in other precisions,
// and on other devices, models use the reference path, that is, the layers' own
// LibTorch code.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "accelerate/autocast_module.h"
#include "device/fused_blocks.h"
#include "transformers/attention.h"
#include "transformers/layers.h"

namespace transformers {

/// Returns the implementation for a model with this policy.
BlockChoice chosen_blocks(
    const std::optional<accelerate::AutocastPolicy>& policy);

/// Applies a head's linear layer, with the fused function if it was chosen. The
/// result of the fused function is fp32 for at most 8 outputs and at most 1024
/// rows, and bf16 for larger sizes.
at::Tensor apply_linear(const Linear& layer, const at::Tensor& x);

/// Returns the mask as a bias that is added to the attention scores: a tensor
/// [B, 1, T, T] ([B, H, T, T] if each head has its own mask), or an undefined
/// tensor if `mask.allowed` is undefined.
at::Tensor mask_bias(const AttentionMask& mask, const at::Tensor& hidden_BTD);

}  // namespace transformers
