// SPDX-License-Identifier: Apache-2.0
// Between the one product that makes queries, keys and values, and attention.
//
// A row of "packed" holds the query heads, the key heads, then the value heads
// of a token, each K wide. Rotation turns channel i with channel i + K/2, as
// Llama does.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// cos and sin in fp32, [tokens, K] or, with `batch_stride`, one for each
/// sequence. Null: nothing is turned.
struct Rotation {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t batch_stride = 0;
};

struct HeadSizes {
  Type type = Type::bf16;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  int query_heads = 0;
  int key_heads = 0;  ///< Of values too.
  int width = 0;      ///< K, even.
};

/// Turns queries and keys where they lie.
void rotate_packed(
    const HeadSizes& sizes,
    void* packed,
    const Rotation& rotation,
    cudaStream_t stream);

/// A tensor [batch, heads, tokens, K] wherever it lies; K lies together.
struct HeadsView {
  const void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;
};

/// The gradient of the packed rows from attention's three, turned back.
void pack_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    const Rotation& rotation,
    void* d_packed,
    cudaStream_t stream);

/// The same where nothing is turned, and beside it the parts of its sums over
/// rows into `workspace`, of `column_sum_workspace(rows, row width)` floats;
/// `column_sum_parts` adds them up, on any stream. False, with nothing done,
/// where the three do not lie well for it.
bool pack_and_sum_gradients(
    const HeadSizes& sizes,
    const HeadsView& dq,
    const HeadsView& dk,
    const HeadsView& dv,
    void* d_packed,
    float* workspace,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
