// SPDX-License-Identifier: Apache-2.0
// Attention on QKV rows: each row holds the query heads, key heads and value
// heads of one token. This library's kernels are used for short sequences
// without a causal mask and without a rotary embedding, if there are as many
// key heads as query heads, if each head has 32 or 64 channels, and if the
// bias, if there is one, is the same for all queries. In all other cases, cuDNN
// is used, or LibTorch's memory-efficient attention if LibTorch's deterministic
// algorithms are on.
//
// Shapes: B batch, T tokens, N = B T rows, K channels per head.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda/blocks/side_stream.h"
#include "cuda/kernels/types.h"

namespace accelerate::cuda {

struct AttentionSizes {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t query_heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t qkv_width() const {
    return (query_heads + 2 * key_heads) * head_dim;
  }
};

struct AttentionOptions {
  AttentionSizes sizes;
  double dropout = 0.0;
  double scale = 1.0;
  bool is_causal = false;
  /// For an unpadded batch, in which N is not B T: the first row of each
  /// sequence, followed by N, as [B + 1] in int32. Each sequence has at most T
  /// tokens. If undefined, each sequence has T tokens. May be defined only if
  /// `supports_variable_lengths` returns true and there is no bias.
  at::Tensor sequence_offsets = {};
};

/// Returns whether attention supports heads of this many channels.
bool supports_heads(std::int64_t head_dim);

/// See `FusedBlocks::supports_length`.
bool supports_length(std::int64_t tokens);

/// Returns whether attention with this type and these sizes accepts
/// `sequence_offsets`.
bool supports_variable_lengths(
    at::ScalarType type, std::int64_t tokens, std::int64_t head_dim);

/// The results of forward that backward needs.
struct AttentionState {
  at::Tensor out;  ///< [N, query heads * K]
  at::Tensor logsumexp;
  at::Tensor seed;
  at::Tensor offset;
  kernels::Dropout dropout;  ///< Used only if `seed` is undefined.
};

/// Computes attention. `bias` is added to the scores; it is [B, 1, T, T] in the
/// type of `qkv`, or undefined. A bias that is the same for all queries should
/// be an expanded view. `cos` and `sin` are the rotary embedding, [1 or B, T,
/// K] in fp32, which is first applied to the queries and keys in `qkv` in
/// place. If `cos` and `sin` are undefined, no rotary embedding is applied.
AttentionState attention(
    const at::Tensor& qkv,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionOptions& options);

struct AttentionGradients {
  at::Tensor d_qkv;  ///< The gradient of `qkv` before the rotary embedding.
  /// The column sums of `d_qkv` in fp32, computed on the side stream. Undefined
  /// if the kernel that was used does not compute them.
  at::Tensor d_bias;
};

AttentionGradients attention_gradients(
    const at::Tensor& d_out,
    const at::Tensor& qkv,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionState& state,
    const AttentionOptions& options,
    SideStream& side_stream);

}  // namespace accelerate::cuda
