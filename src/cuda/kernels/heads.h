// SPDX-License-Identifier: Apache-2.0
// Kernels that run between the QKV GEMM and attention.
//
// Each row of `qkv` holds the query heads, then the key heads, then the value
// heads of one token. Each head has K channels. The rotary embedding (RoPE)
// rotates channel i together with channel i + K/2.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// The rotary embedding. `cos` and `sin` are [tokens, K] in fp32, either one
/// table for all sequences (`batch_stride` is 0) or one table for each sequence
/// (`batch_stride` elements apart). If they are null, nothing is rotated.
struct RotaryEmbedding {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t batch_stride = 0;
};

struct HeadSizes {
  Type type = Type::bf16;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  int query_heads = 0;
  int key_heads = 0;  ///< Also the number of value heads.
  int head_dim = 0;   ///< K; must be even.
};

/// Applies the rotary embedding to the queries and keys in `qkv`, in place.
void apply_rotary_embedding(
    const HeadSizes& sizes,
    void* qkv,
    const RotaryEmbedding& rotary,
    cudaStream_t stream);

/// A strided tensor [batch, heads, tokens, K]. The channels of a head are
/// contiguous.
struct HeadsView {
  const void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;
};

/// Packs the gradients of queries, keys and values into the gradient of `qkv`.
/// Applies the inverse of the rotary embedding to the gradients of queries and
/// keys.
void pack_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    const RotaryEmbedding& rotary,
    void* d_qkv,
    cudaStream_t stream);

/// Like `pack_gradients`, but without a rotary embedding. Also computes partial
/// column sums of `d_qkv`. `workspace` must have `column_sum_workspace(rows,
/// width)` floats for the rows and the width of `d_qkv`, and receives the
/// partial sums. Afterwards, the caller must call `finish_column_sum`, on any
/// stream, to add up the partial sums. Returns false, and does nothing, if the
/// layout of the gradients is not supported.
bool pack_and_sum_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    void* d_qkv,
    float* workspace,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
