// SPDX-License-Identifier: Apache-2.0
// Decides when models use fused blocks, and prepares the inputs that the blocks
// need.
//
// Models use the fused blocks on a GPU, under autocast to bf16, once
// libaccelerate_cuda.so is loaded (an Accelerator loads it). Otherwise, they
// use the layers' own LibTorch code, which is called the reference path.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"
#include "transformers/attention.h"

namespace transformers {

class Linear;

/// Returns the fused blocks for a device, or null if the reference path (the
/// layers' own LibTorch code) must be used.
const accelerate::FusedBlocks* fused_path_of(c10::Device device);
/// Returns the fused blocks for a parameter's device, or null if the reference
/// path (the layers' own LibTorch code) must be used. Parameters that are not
/// fp32 always use the reference path.
const accelerate::FusedBlocks* fused_path(const at::Tensor& parameter);

/// Applies a head's linear layer, with the fused function if it is available.
/// The result of the fused function is fp32 for at most 8 outputs and at most
/// 1024 rows, and bf16 for larger sizes.
at::Tensor apply_linear(const Linear& layer, const at::Tensor& x);

/// Whether attention with heads of this size and rows of this length can be
/// fused.
bool can_fuse_heads(std::int64_t head_dim, std::int64_t tokens);

/// Returns the mask as a bias that is added to the attention scores: a tensor
/// [B, 1, T, T] ([B, H, T, T] if each head has its own mask), or an undefined
/// tensor if `mask.allowed` is undefined.
at::Tensor mask_bias(const AttentionMask& mask, const at::Tensor& hidden_BTD);

}  // namespace transformers
