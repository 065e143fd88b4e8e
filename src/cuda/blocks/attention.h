// SPDX-License-Identifier: Apache-2.0
// cuDNN's attention between packed rows: each holds a token's query heads, key
// heads and value heads side by side.
//
// Shapes: B batch, T tokens, N = B T, K width of a head.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

struct AttentionSizes {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t query_heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t packed_width() const {
    return (query_heads + 2 * key_heads) * head_dim;
  }
};

struct AttentionSettings {
  AttentionSizes sizes;
  double dropout = 0.0;
  double scale = 1.0;
  bool is_causal = false;
};

/// What backward wants again.
struct AttentionState {
  at::Tensor out;  ///< [N, query heads * K]
  at::Tensor logsumexp;
  at::Tensor seed;
  at::Tensor offset;
};

/// `bias` is added to the scores, [B, 1, T, T] in the type of `packed`; may be
/// undefined. `cos` and `sin` ([1 or B, T, K] in fp32) turn queries and keys
/// first, in `packed` itself; undefined: nothing is turned.
AttentionState attention(
    const at::Tensor& packed,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionSettings& settings);

/// The gradient of the packed rows as they were before they were turned.
at::Tensor attention_gradient(
    const at::Tensor& d_out,
    const at::Tensor& packed,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionState& state,
    const AttentionSettings& settings);

}  // namespace accelerate::cuda
