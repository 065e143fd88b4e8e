// SPDX-License-Identifier: Apache-2.0
// The gradient of an embedding table, the same bits in every run.
#pragma once

#include <cstddef>

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct EmbeddingBackward {
  Type type = Type::bf16;
  const std::int64_t* ids = nullptr;  ///< [N]
  const void* dy = nullptr;           ///< [N, D]
  std::int64_t count = 0;             ///< N, below 2^31.
  std::int64_t rows = 0;              ///< Of the table, below 2^31.
  std::int64_t width = 0;             ///< D
  /// This row gets no gradient; negative: every row does.
  std::int64_t padding_id = -1;
  /// [rows, D]: added to, so clear it first. Ids outside the table are left
  /// out.
  float* d_table = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

std::size_t embedding_workspace_bytes(
    std::int64_t count, std::int64_t rows, std::int64_t width);

/// The first half, which wants `ids` and the workspace alone. Returns what the
/// CUDA runtime says, as the second.
cudaError_t embedding_sort(const EmbeddingBackward& work, cudaStream_t stream);
cudaError_t embedding_sums(const EmbeddingBackward& work, cudaStream_t stream);

/// Both.
cudaError_t embedding_backward(
    const EmbeddingBackward& work, cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
