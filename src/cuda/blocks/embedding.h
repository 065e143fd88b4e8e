// SPDX-License-Identifier: Apache-2.0
// Embedding lookups in bf16 with a deterministic gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Looks up `ids`, [B, T] in int64, in `table`, [V, D]. Returns [B, T, D] in
/// bf16. The table row with the index `padding_id` gets no gradient. If
/// `padding_id` is negative, every row gets a gradient.
at::Tensor embedding(
    const at::Tensor& table,
    const at::Tensor& ids,
    std::int64_t padding_id = -1);

/// Computes the sum of embeddings that `input` describes (see
/// `SummedEmbedding`). Returns an undefined tensor if no kernel supports the
/// sizes of `input`.
at::Tensor summed_embedding(const SummedEmbedding& input);

}  // namespace accelerate::cuda
