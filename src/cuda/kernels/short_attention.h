// SPDX-License-Identifier: Apache-2.0
// Attention of sequences that fit into one block of threads: every token sees
// every token of its sequence, but for what `key_bias` hides.
//
// A row of "packed" holds the query, key and value heads of a token, each K
// wide. Sequences lie behind each other, of one length or of any: what a
// library reads and writes several times stays in shared memory here, results
// are written where the next product reads them, and sums have one order.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

constexpr std::int64_t kShortTokens = 128;  ///< Of a sequence, at most.

struct ShortAttention {
  Type type = Type::bf16;  ///< f16 or bf16.
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  ///< Of each sequence, or of the longest.
  int heads = 0;
  int width = 0;  ///< K: 32 or 64.
  /// Rows where sequences begin and, at the end, where the last one ends:
  /// [sequences + 1]. Null: each has `tokens` rows.
  const int* starts = nullptr;
  /// Added to the scores of a key, [sequences, tokens] in `type`, rows
  /// `key_bias_stride` apart; null: nothing. Not with `starts`.
  const void* key_bias = nullptr;
  std::int64_t key_bias_stride = 0;
  float scale = 1.0F;
  Dropout dropout;
  const void* packed = nullptr;  ///< [N, 3 * heads * K], aligned to 16 bytes.
};

bool can_be_short_attention(
    Type type, std::int64_t tokens, std::int64_t head_width);

/// `out` is [N, heads * K], `log_sum` [N, heads]: backward wants both again.
cudaError_t short_attention_forward(
    const ShortAttention& work, void* out, float* log_sum, cudaStream_t stream);

/// The gradient of `packed`, laid out as that, and its sums over the rows of
/// each sequence, [sequences, 3 * heads * K].
cudaError_t short_attention_backward(
    const ShortAttention& work,
    const void* out,
    const float* log_sum,
    const void* d_out,
    void* d_packed,
    float* sums,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
