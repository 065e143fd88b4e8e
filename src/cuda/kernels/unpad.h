// SPDX-License-Identifier: Apache-2.0
// A batch without its padding: rows of real tokens behind each other.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// Shapes: B batch, T tokens, N rows without padding, some of which are spare.
struct Unpad {
  const bool* is_real = nullptr;  ///< [B, T]
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t rows = 0;     ///< N; real tokens that do not fit are left out.
  std::int64_t spares = 0;   ///< Sequences that share the spare rows.
  std::int64_t longest = 0;  ///< Rows of each of those, at most.
  int* sources = nullptr;    ///< [N]: a row's place in B T; -1 where spare.
  int* places = nullptr;     ///< [B, T]: a token's row; -1 for padding.
  int* starts = nullptr;     ///< [B + spares + 1]: where sequences begin.
};

void unpad(const Unpad& work, cudaStream_t stream);

/// to[i] = from[index[i]], rows of `width`; zeros where that is -1.
void take_rows(
    Type type,
    const void* from,
    const int* index,
    std::int64_t rows,
    std::int64_t width,
    void* to,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
