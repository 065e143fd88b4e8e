// SPDX-License-Identifier: Apache-2.0
// Builds rows (`Encoding`) from the tokens of one or two texts: truncation,
// special tokens and padding.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tokenizers/engine.h"
#include "tokenizers/files/tokenizer_config.h"
#include "transformers/encoding.h"
#include "transformers/tokenizer_options.h"

namespace transformers::tokenizers {

/// The options of a call with all defaults filled in.
struct ResolvedOptions {
  PaddingStrategy padding = false;
  TruncationStrategy truncation = false;
  // The maximum length for padding and truncation, in tokens.
  std::int64_t max_length = 0;
  std::int64_t stride = 0;
  std::int64_t pad_to_multiple_of = 1;
  Side padding_side = Side::right;
  Side truncation_side = Side::right;
  std::int64_t pad_id = 0;
  bool add_special_tokens = true;
  bool token_type_ids = true;
  bool attention_mask = true;
  bool special_tokens_mask = false;
  bool offsets = false;
  bool words = false;
  bool overflow = false;

  bool tracks() const { return offsets || words; }
};

/// Fills in the defaults for options that are not set. Throws `ArgumentError`
/// when the options contradict each other.
ResolvedOptions resolve_options(
    const TokenizerCallOptions& options,
    const TokenizerConfig& config,
    std::optional<std::int64_t> pad_id);

/// Builds the row for a text or a pair. If `resolved.overflow` is true, the
/// row's `overflowing` holds the rows for the parts that truncation cut off.
/// `second` is null for a single text.
Encoding make_row(
    const Tokens& first,
    const Tokens* second,
    const PostProcessor& post_processor,
    const ResolvedOptions& resolved);

/// Pads a row to `length` tokens.
void pad_row(
    Encoding& row, std::size_t length, const ResolvedOptions& resolved);
/// Pads rows as `resolved` requires, including the rows for the parts that
/// truncation cut off.
void pad_rows(std::vector<Encoding>& rows, const ResolvedOptions& resolved);

}  // namespace transformers::tokenizers
