// SPDX-License-Identifier: Apache-2.0
// Attention and the masks it looks through.
//
// Shapes: B batch, H heads, T tokens, D width of a head.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace transformers {

/// Who may look at whom, the same for every layer of one forward.
struct AttentionMask {
  /// True where a token may be looked at, broadcast to [B, H, T, T];
  /// undefined when all may.
  at::Tensor allowed;
  /// Each token looks at itself and those before; never with `allowed`, which
  /// then says so itself.
  bool is_causal = false;
};

/// From the batch's `attention_mask` ([B, T] of 0 and 1, or whole masks of
/// three or four dimensions; may be undefined).
AttentionMask attention_mask(
    const at::Tensor& padding_BT, const at::Tensor& hidden_BTE, bool is_causal);

struct AttentionOptions {
  double dropout = 0.0;
  double scale = 1.0;
  /// Computes step by step, and the weights are kept.
  bool eager = false;
  /// Where they go.
  std::vector<at::Tensor>* weights = nullptr;
};

/// softmax(q k^T) v; keys and values may have fewer heads than queries.
/// Returns [B, T, H * D].
at::Tensor attend(
    const at::Tensor& q_BHTD,
    const at::Tensor& k_BHTD,
    const at::Tensor& v_BHTD,
    const AttentionMask& mask,
    const AttentionOptions& options);

/// [B, T, H * D] as [B, H, T, D].
at::Tensor split_heads(const at::Tensor& x_BTE, std::int64_t head_dim);

}  // namespace transformers
