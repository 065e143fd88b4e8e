// SPDX-License-Identifier: Apache-2.0
// Rows of a table, in bf16, with a gradient that has the same bits every time.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// table [V, D] at ids ([B, T], int64) as [B, T, D] in bf16; the row
/// `padding_id` gets no gradient, where it is not negative.
at::Tensor embedding(
    const at::Tensor& table,
    const at::Tensor& ids,
    std::int64_t padding_id = -1);

/// Words, positions and types of tokens, their sum's norm, dropout: see
/// `SummedEmbedding`. Undefined where there is no kernel for these sizes.
at::Tensor summed_embedding(const SummedEmbedding& input);

}  // namespace accelerate::cuda
