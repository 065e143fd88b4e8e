// SPDX-License-Identifier: Apache-2.0
// A tokenizer's rows as the tensors a model takes.
//
//     auto batch = tokenizer(sentences, {.padding = true});
//     auto output = model(transformers::to_tensors(batch));
#pragma once

#include "accelerate/tensor_map.h"
#include "transformers/encoding.h"
#include "transformers/export.h"

namespace transformers {

/// Returns `input_ids` and, where the rows have them, `attention_mask`,
/// `token_type_ids` and `special_tokens_mask`: [rows, length] of int64, on the
/// host. Throws `ArgumentError` when the rows differ in length.
[[nodiscard]] TRANSFORMERS_API accelerate::TensorMap to_tensors(
    const BatchEncoding& batch);

/// The same for one row, as a batch of one.
[[nodiscard]] TRANSFORMERS_API accelerate::TensorMap to_tensors(
    const Encoding& encoding);

}  // namespace transformers
