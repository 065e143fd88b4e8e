// SPDX-License-Identifier: Apache-2.0
// Attention and its masks.
//
// Shapes: B batch, H heads, T tokens, D width of a head.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace transformers {

/// Which tokens each token may attend to. The mask is the same for every layer
/// of a forward pass.
struct AttentionMask {
  /// True where a token is visible. The shape can be broadcast to [B, H, T, T].
  /// If undefined, all tokens are visible, unless `is_causal` is set.
  at::Tensor allowed;
  /// Whether each token can attend only to itself and earlier tokens. Always
  /// false if `allowed` is defined, because `allowed` then already hides later
  /// tokens.
  bool is_causal = false;
};

/// Makes a mask from `padding_BT`, the batch's `attention_mask`. `padding_BT`
/// is a tensor [B, T] with values 0 and 1, a full mask with three or four
/// dimensions, or undefined.
AttentionMask attention_mask(
    const at::Tensor& padding_BT, const at::Tensor& hidden_BTE, bool is_causal);

struct AttentionOptions {
  double dropout = 0.0;
  double scale = 1.0;
  /// Whether to use separate operations instead of LibTorch's fused attention.
  bool eager = false;
  /// The vector to which the attention weights are appended; requires `eager`.
  /// If null, the weights are discarded.
  std::vector<at::Tensor>* weights = nullptr;
};

/// Returns softmax(scale * q k^T) v as a tensor [B, T, H * D]. Keys and values
/// may have fewer heads than queries.
at::Tensor attend(
    const at::Tensor& q_BHTD,
    const at::Tensor& k_BHTD,
    const at::Tensor& v_BHTD,
    const AttentionMask& mask,
    const AttentionOptions& options);

/// Reshapes [B, T, H * D] to [B, H, T, D].
at::Tensor split_heads(const at::Tensor& x_BTE, std::int64_t head_dim);

}  // namespace transformers
