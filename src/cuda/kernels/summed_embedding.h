// SPDX-License-Identifier: Apache-2.0
// The sum of three embeddings, one row for each token:
//
//     sum = words[id] + positions[position] + types[type]
//     y   = dropout(norm(sum) * weight + shift)
//
// Without position ids, the position of a token is its index in its sequence.
// Without a type table, the sum has two terms. Tables are fp32. The sum is
// computed in fp32 and stored in bf16.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct SummedEmbedding {
  std::int64_t rows = 0;              ///< N, a multiple of `tokens`.
  std::int64_t tokens = 0;            ///< Tokens in each sequence.
  std::int64_t width = 0;             ///< D, a multiple of 8, at most 8192.
  const std::int64_t* ids = nullptr;  ///< [N]
  const std::int64_t* position_ids = nullptr;  ///< [N] or null
  const std::int64_t* types = nullptr;         ///< [N]; if null, all 0.
  const float* words = nullptr;                ///< [word_rows, D]
  /// [position_rows, D]. Without position ids, `position_rows` must be at least
  /// `tokens`.
  const float* positions = nullptr;
  const float* type_table = nullptr;  ///< [type_rows, D] or null
  std::int64_t word_rows = 0;
  std::int64_t position_rows = 0;
  std::int64_t type_rows = 0;
  const float* weight = nullptr;  ///< [D]
  const float* shift = nullptr;   ///< [D]
  float eps = 1e-12F;
  Dropout dropout;
  void* sum = nullptr;    ///< [N, D] in bf16; backward needs it.
  void* y = nullptr;      ///< [N, D] in bf16
  float* mean = nullptr;  ///< [N]
  float* rstd = nullptr;  ///< [N]
};

/// Computes `sum`, `y`, `mean` and `rstd`. Matrices must be aligned to 16
/// bytes. An id that is not in its table makes the kernel trap, as in
/// LibTorch's lookups.
void summed_embedding(const SummedEmbedding& work, cudaStream_t stream);

struct PositionTypeGradients {
  static constexpr int kMaxTypes = 3;
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t width = 0;
  const void* d_sum = nullptr;          ///< [N, D] in bf16
  const std::int64_t* types = nullptr;  ///< [N]; the same as in forward.
  float* d_positions = nullptr;         ///< [position_rows, D]
  std::int64_t position_rows = 0;
  float* d_types = nullptr;  ///< [type_rows, D]
  std::int64_t type_rows = 0;
  float* workspace = nullptr;  ///< [tokens, type_rows, D]
};

/// Computes the gradients of the position table and the type table, including
/// the rows that no token uses. The order of summation depends only on the
/// sizes.
void position_type_gradients(
    const PositionTypeGradients& work, cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
