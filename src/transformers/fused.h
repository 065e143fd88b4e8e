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

class Linear;

/// What computes on a device now; null: the layers themselves.
const accelerate::FusedBlocks* fused_path_of(c10::Device device);
/// The same for a parameter, which must be fp32.
const accelerate::FusedBlocks* fused_path(const at::Tensor& parameter);

/// A layer of a head, with its gradient as one function where that is offered:
/// in bf16, or in fp32 for a few outputs.
at::Tensor one_linear(const Linear& layer, const at::Tensor& x);

/// Whether attention of such heads can be fused.
bool can_fuse_heads(std::int64_t head_dim, std::int64_t tokens);

/// The mask as what is added to the scores, [B, 1, T, T]; undefined when all
/// may be looked at, or only what comes before (`is_causal`).
at::Tensor mask_bias(const AttentionMask& mask, const at::Tensor& hidden_BTD);

}  // namespace transformers
