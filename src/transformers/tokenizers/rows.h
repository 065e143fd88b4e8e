// SPDX-License-Identifier: Apache-2.0
// From the tokens of one or two texts to rows: truncation, special tokens,
// padding.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transformers/encoding.h"
#include "transformers/tokenizer_options.h"
#include "transformers/tokenizers/engine.h"
#include "transformers/tokenizers/settings.h"

namespace transformers::tokenizers {

/// The options of a call, with every question settled.
struct RowPlan {
  PaddingStrategy padding = false;
  TruncationStrategy truncation = false;
  std::int64_t max_length = 0;  // For either of them.
  std::int64_t stride = 0;
  std::int64_t pad_to_multiple_of = 1;
  Side padding_side = Side::right;
  Side truncation_side = Side::right;
  std::int64_t pad_id = 0;
  std::int64_t pad_type_id = 0;
  bool add_special_tokens = true;
  bool token_type_ids = true;
  bool attention_mask = true;
  bool special_tokens_mask = false;
  bool offsets = false;
  bool words = false;
  bool overflow = false;

  bool tracks() const { return offsets || words; }
};

/// Throws `ArgumentError` where the options contradict each other.
RowPlan make_plan(
    const TokenizerCallOptions& options,
    const Settings& settings,
    std::optional<std::int64_t> pad_id);

/// Makes the row of a text or a pair, and with `plan.overflow` those of what
/// was cut off. `second` is null for a single text.
Encoding make_row(
    const Tokens& first,
    const Tokens* second,
    const PostProcessor& post_processor,
    const RowPlan& plan);

/// Pads a row to `length`.
void pad_row(Encoding& row, std::size_t length, const RowPlan& plan);
/// Pads rows as the plan says, what was cut off included.
void pad_rows(std::vector<Encoding>& rows, const RowPlan& plan);

}  // namespace transformers::tokenizers
