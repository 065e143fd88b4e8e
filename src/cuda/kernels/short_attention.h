// SPDX-License-Identifier: Apache-2.0
// Attention for sequences that one thread block can process. Each token attends
// to every token in its sequence, except the tokens that `key_bias` hides.
//
// Each row of `qkv` holds the query heads, then the key heads, then the value
// heads of one token. Each head has K channels. Sequences are stored one after
// the other and may have different lengths. Intermediate results stay in shared
// memory, the output has the layout that the next GEMM reads, and the order of
// summation is fixed.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// The maximum number of tokens in a sequence.
constexpr std::int64_t kShortTokens = 128;

struct ShortAttention {
  Type type = Type::bf16;  ///< f16 or bf16.
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  ///< The length of the longest sequence.
  int heads = 0;
  int head_dim = 0;  ///< K: 32 or 64.
  /// The first row of each sequence, followed by N: [sequences + 1]. If null,
  /// each sequence has `tokens` rows.
  const int* sequence_offsets = nullptr;
  /// A bias that is added to the scores of each key: [sequences, tokens] in
  /// `type`, with `key_bias_stride` elements from one row to the next. If null,
  /// no bias is added. Must be null if `sequence_offsets` is not null.
  const void* key_bias = nullptr;
  std::int64_t key_bias_stride = 0;
  float scale = 1.0F;
  Dropout dropout;
  const void* qkv = nullptr;  ///< [N, 3 * heads * K], aligned to 16 bytes.
};

bool supports_short_attention(
    Type type, std::int64_t tokens, std::int64_t head_dim);

/// Computes `out`, [N, heads * K], and `log_sum`, [N, heads]: the base-2
/// logarithm of each softmax denominator. Backward needs both.
cudaError_t short_attention_forward(
    const ShortAttention& work, void* out, float* log_sum, cudaStream_t stream);

/// Computes `d_qkv`, the gradient of `qkv`, with the same layout as `qkv`. Also
/// computes `sums`, [sequences, 3 * heads * K]: the column sums of `d_qkv` over
/// the rows of each sequence.
cudaError_t short_attention_backward(
    const ShortAttention& work,
    const void* out,
    const float* log_sum,
    const void* d_out,
    void* d_qkv,
    float* sums,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
