// SPDX-License-Identifier: Apache-2.0
// The gradient of an embedding table, computed deterministically.
#pragma once

#include <cstddef>

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

struct EmbeddingBackward {
  Type type = Type::bf16;
  const std::int64_t* ids = nullptr;  ///< [N]
  const void* dy = nullptr;           ///< [N, D]
  std::int64_t count = 0;             ///< N, below 2^31.
  std::int64_t rows = 0;              ///< Rows in the table, below 2^31.
  std::int64_t width = 0;             ///< D
  /// The row of the table with this index gets no gradient. If negative, every
  /// row gets a gradient.
  std::int64_t padding_id = -1;
  /// [rows, D]. The gradient is added to this table, so the caller must set it
  /// to zero first. Ids that are not in [0, rows) are ignored.
  float* d_table = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

std::size_t embedding_workspace_bytes(
    std::int64_t count, std::int64_t rows, std::int64_t width);

/// The two halves of `embedding_backward`. `embedding_sort`, the first half,
/// uses only `ids` and the workspace. Both halves return the status of the CUDA
/// runtime.
cudaError_t embedding_sort(const EmbeddingBackward& work, cudaStream_t stream);
cudaError_t embedding_sums(const EmbeddingBackward& work, cudaStream_t stream);

/// Computes the gradient. Calls `embedding_sort`, then `embedding_sums`.
cudaError_t embedding_backward(
    const EmbeddingBackward& work, cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
