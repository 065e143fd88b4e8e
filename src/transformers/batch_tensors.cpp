// SPDX-License-Identifier: Apache-2.0
#include "transformers/batch_tensors.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers {
namespace {

using EncodedColumn = std::vector<std::int64_t> Encoding::*;

void check_lengths(std::span<const Encoding> rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() != rows[0].size()) {
      throw accelerate::ArgumentError(
          accelerate::str_cat(
              "the number of tokens is ",
              rows[0].size(),
              " in row 0, but ",
              rows[i].size(),
              " in row ",
              i),
          "encode with `.padding = true`, or use `tokenizer.pad`");
    }
  }
}

// Skips the column if a row does not have it.
void add_column(
    std::span<const Encoding> rows,
    const char* name,
    EncodedColumn column,
    accelerate::TensorMap& tensors) {
  const auto length = static_cast<std::int64_t>(rows[0].size());
  for (const Encoding& row : rows) {
    if ((row.*column).size() != row.size()) {
      return;
    }
  }
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(rows.size()), length}, at::kLong);
  auto* out = tensor.mutable_data_ptr<std::int64_t>();
  for (const Encoding& row : rows) {
    out = std::copy((row.*column).begin(), (row.*column).end(), out);
  }
  tensors.emplace(name, std::move(tensor));
}

accelerate::TensorMap make_tensors(std::span<const Encoding> rows) {
  if (rows.empty()) {
    throw accelerate::ArgumentError(
        "cannot make tensors from a batch without rows");
  }
  check_lengths(rows);
  accelerate::TensorMap tensors;
  add_column(rows, "input_ids", &Encoding::input_ids, tensors);
  add_column(rows, "attention_mask", &Encoding::attention_mask, tensors);
  add_column(rows, "token_type_ids", &Encoding::token_type_ids, tensors);
  add_column(
      rows, "special_tokens_mask", &Encoding::special_tokens_mask, tensors);
  return tensors;
}

}  // namespace

accelerate::TensorMap to_tensors(const BatchEncoding& batch) {
  return make_tensors(batch.rows);
}

accelerate::TensorMap to_tensors(const Encoding& encoding) {
  return make_tensors({&encoding, 1});
}

}  // namespace transformers
