// SPDX-License-Identifier: Apache-2.0
// The output of a tokenizer: rows of token ids and masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace transformers {

/// A range of characters in a text: [first, second).
using Offsets = std::pair<std::int64_t, std::int64_t>;

/// One row of token ids and masks. Vectors that were not requested are empty;
/// all others, except `overflowing`, have one entry per token.
struct Encoding {
  std::vector<std::int64_t> input_ids;
  /// The segment id of each token, as the model defines it: usually 0 for the
  /// first text and 1 for the second text.
  std::vector<std::int64_t> token_type_ids;
  /// 1 for tokens, 0 for padding.
  std::vector<std::int64_t> attention_mask;
  /// 1 for special tokens and padding, 0 for all other tokens.
  std::vector<std::int64_t> special_tokens_mask;
  /// The characters that each token covers; (0, 0) for special tokens and
  /// padding.
  std::vector<Offsets> offset_mapping;
  /// For each token, `word_ids` has the index of its word, and `sequence_ids`
  /// has the index of its text (0 or 1). Special tokens and padding have no
  /// index.
  std::vector<std::optional<std::int64_t>> word_ids;
  std::vector<std::optional<std::int64_t>> sequence_ids;
  /// The parts that truncation cut off, if `return_overflowing_tokens` is set.
  /// In a batch, these parts are additional rows instead.
  std::vector<Encoding> overflowing;

  std::size_t size() const { return input_ids.size(); }
  bool operator==(const Encoding&) const = default;
};

/// The rows of a batch. With `return_overflowing_tokens`, one text may produce
/// several rows.
struct BatchEncoding {
  std::vector<Encoding> rows;
  /// The index of the text that each row comes from; empty without
  /// `return_overflowing_tokens`.
  std::vector<std::int64_t> overflow_to_sample_mapping;

  std::size_t size() const { return rows.size(); }
  const Encoding& operator[](std::size_t row) const { return rows[row]; }
  Encoding& operator[](std::size_t row) { return rows[row]; }
  auto begin() const { return rows.begin(); }
  auto end() const { return rows.end(); }
};

}  // namespace transformers
