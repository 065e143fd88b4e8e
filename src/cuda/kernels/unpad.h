// SPDX-License-Identifier: Apache-2.0
// Removes the padding from a batch by packing the rows of real tokens.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// The input and output of `unpad`. Shapes: B batch, T tokens, N packed rows.
/// Packed rows that hold no token are called spare rows.
struct Unpad {
  const bool* is_real = nullptr;  ///< [B, T]
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t rows = 0;  ///< N; tokens that do not fit are dropped.
  /// The number of sequences that the spare rows form.
  std::int64_t spare_sequences = 0;
  /// The maximum number of rows in a sequence of spare rows.
  std::int64_t max_length = 0;
  /// [N]: for each packed row, its row in the padded batch; -1 for a spare row.
  int* source_rows = nullptr;
  /// [B, T]: for each token, its packed row; -1 for padding.
  int* packed_rows = nullptr;
  /// [B + spare_sequences + 1]: the first packed row of each sequence, followed
  /// by N.
  int* sequence_offsets = nullptr;
};

void unpad(const Unpad& work, cudaStream_t stream);

/// Sets row i of `to` to row `index[i]` of `from`, or to zeros if `index[i]` is
/// -1. `to` has `rows` rows of `width` elements.
void take_rows(
    Type type,
    const void* from,
    const int* index,
    std::int64_t rows,
    std::int64_t width,
    void* to,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
