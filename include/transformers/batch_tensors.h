// SPDX-License-Identifier: Apache-2.0
// Converts a tokenizer's output to the tensors that a model takes.
//
//     auto batch = tokenizer(sentences, {.padding = true});
//     auto output = model(transformers::to_tensors(batch));
#pragma once

#include "accelerate/tensor_map.h"
#include "transformers/encoding.h"
#include "transformers/export.h"

namespace transformers {

/// Returns the tensor `input_ids` and, if every row has them, the tensors
/// `attention_mask`, `token_type_ids` and `special_tokens_mask`. Each is an
/// int64 tensor of shape [rows, length] in host memory.
///
/// Throws `ArgumentError` when the rows differ in length.
[[nodiscard]] TRANSFORMERS_API accelerate::TensorMap to_tensors(
    const BatchEncoding& batch);

/// Returns the same tensors for a single row. Each has the shape [1, length].
[[nodiscard]] TRANSFORMERS_API accelerate::TensorMap to_tensors(
    const Encoding& encoding);

}  // namespace transformers
