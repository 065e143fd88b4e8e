// SPDX-License-Identifier: Apache-2.0
// Attention between packed rows: each holds a token's query heads, key heads
// and value heads side by side. Short sequences that see all of themselves have
// kernels of our own, the rest goes to cuDNN.
//
// Shapes: B batch, T tokens, N = B T, K width of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda/blocks/aside.h"
#include "cuda/kernels/types.h"

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
  /// Where sequences of any length up to T begin in N rows that are not B T,
  /// and where the last one ends: [B + 1] in int32. Undefined: each has T.
  /// Only where `attends_to_sequences`, and without a bias.
  at::Tensor starts = {};
};

/// Whether heads of this type and width may have `starts`.
bool attends_to_sequences(
    at::ScalarType type, std::int64_t tokens, std::int64_t head_dim);

/// What backward wants again.
struct AttentionState {
  at::Tensor out;  ///< [N, query heads * K]
  at::Tensor logsumexp;
  at::Tensor seed;
  at::Tensor offset;
  kernels::Dropout dropout;  ///< Where there is no seed.
};

/// `bias` is added to the scores, [B, 1, T, T] in the type of `packed`; may be
/// undefined, and is best left expanded where it is the same for all queries.
/// `cos` and `sin` ([1 or B, T, K] in fp32) turn queries and keys first, in
/// `packed` itself; undefined: nothing is turned.
AttentionState attention(
    const at::Tensor& packed,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionSettings& settings);

struct AttentionGradients {
  at::Tensor d_packed;  ///< Of the packed rows as before they were turned.
  /// Its sums over rows in fp32, made aside; undefined where they are not at
  /// hand.
  at::Tensor d_bias;
};

AttentionGradients attention_gradients(
    const at::Tensor& d_out,
    const at::Tensor& packed,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionState& state,
    const AttentionSettings& settings,
    Aside& aside);

}  // namespace accelerate::cuda
