// SPDX-License-Identifier: Apache-2.0
// When the accelerator's fused blocks compute, and what they want.
//
// They do on a GPU, under autocast to bf16, once libaccelerate_cuda.so is open
// (which an Accelerator does). The layers' own code is the reference.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"
#include "transformers/attention.h"

namespace transformers {

/// What computes on a device now; null: the layers themselves.
const accelerate::FusedBlocks* fused_path_of(c10::Device device);
/// The same for a parameter, which must be fp32.
const accelerate::FusedBlocks* fused_path(const at::Tensor& parameter);

/// Whether attention of such heads can be fused.
bool can_fuse_heads(std::int64_t head_dim, std::int64_t tokens);

/// The mask as what is added to the scores, [B, 1, T, T]; undefined when all
/// may be looked at, or only what comes before (`is_causal`).
at::Tensor mask_bias(const AttentionMask& mask, const at::Tensor& hidden_BTD);

}  // namespace transformers
