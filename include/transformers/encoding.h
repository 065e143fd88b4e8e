// SPDX-License-Identifier: Apache-2.0
// What a tokenizer returns: rows of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace transformers {

/// Characters [first, second) of a text.
using Offsets = std::pair<std::int64_t, std::int64_t>;

/// One row. Vectors that were not asked for are empty; the others are all of
/// one length.
struct Encoding {
  std::vector<std::int64_t> input_ids;
  /// Which text of a pair a token is from, as the model counts them.
  std::vector<std::int64_t> token_type_ids;
  /// 1 for tokens, 0 for padding.
  std::vector<std::int64_t> attention_mask;
  /// 1 for special tokens and padding.
  std::vector<std::int64_t> special_tokens_mask;
  /// (0, 0) for special tokens and padding.
  std::vector<Offsets> offset_mapping;
  /// Nothing for special tokens and padding.
  std::vector<std::optional<std::int64_t>> word_ids;
  std::vector<std::optional<std::int64_t>> sequence_ids;
  /// What was cut off, when a single text was asked for it.
  std::vector<Encoding> overflowing;

  std::size_t size() const { return input_ids.size(); }
  bool operator==(const Encoding&) const = default;
};

/// Rows of a batch. With `return_overflowing_tokens` a text may have several.
struct BatchEncoding {
  std::vector<Encoding> rows;
  /// The text each row is from; empty unless overflow was asked for.
  std::vector<std::int64_t> overflow_to_sample_mapping;

  std::size_t size() const { return rows.size(); }
  const Encoding& operator[](std::size_t row) const { return rows[row]; }
  Encoding& operator[](std::size_t row) { return rows[row]; }
  auto begin() const { return rows.begin(); }
  auto end() const { return rows.end(); }
};

}  // namespace transformers
