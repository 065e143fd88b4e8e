// SPDX-License-Identifier: Apache-2.0
// What BERT begins with, one row for each token:
//
//     sum = words[id] + positions[place] + types[type]
//     y   = dropout(norm(sum) * weight + shift)
//
// A token's place is its row's number within its sequence. Tables are fp32, as
// the sum is until it is written.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct SummedEmbedding {
  std::int64_t rows = 0;                ///< N: sequences of `tokens` each.
  std::int64_t tokens = 0;              ///< At most the rows of `positions`.
  std::int64_t width = 0;               ///< D, a multiple of 8, at most 8192.
  const std::int64_t* ids = nullptr;    ///< [N]
  const std::int64_t* types = nullptr;  ///< [N]; null: all 0.
  const float* words = nullptr;         ///< [word_rows, D]
  const float* positions = nullptr;     ///< [>= tokens, D]
  const float* type_table = nullptr;    ///< [type_rows, D]
  std::int64_t word_rows = 0;
  std::int64_t type_rows = 0;
  const float* weight = nullptr;  ///< [D]
  const float* shift = nullptr;   ///< [D]
  float eps = 1e-12F;
  Dropout dropout;
  void* sum = nullptr;    ///< [N, D] in bf16; backward wants it.
  void* y = nullptr;      ///< [N, D] in bf16
  float* mean = nullptr;  ///< [N]
  float* rstd = nullptr;  ///< [N]
};

/// Matrices are 16-byte aligned. An id or type outside its table stops the
/// kernel, as LibTorch's lookups do.
void summed_embedding(const SummedEmbedding& work, cudaStream_t stream);

struct PlaceSums {
  static constexpr int kMostTypes = 3;
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t width = 0;
  const void* d_sum = nullptr;          ///< [N, D] in bf16
  const std::int64_t* types = nullptr;  ///< Forward's.
  float* d_positions = nullptr;         ///< [position_rows, D]
  std::int64_t position_rows = 0;
  float* d_types = nullptr;  ///< [type_rows, D]
  std::int64_t type_rows = 0;
  float* workspace = nullptr;  ///< [tokens, type_rows, D]
};

/// The gradients of positions and types, every row of them, in an order of
/// summation that depends on the sizes alone.
void place_sums(const PlaceSums& work, cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
