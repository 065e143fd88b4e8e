// SPDX-License-Identifier: Apache-2.0
// The last stage: inserts special tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizers/files/json_node.h"

namespace transformers::tokenizers {

/// One item of a template: a sequence, or special tokens.
struct TemplatePiece {
  enum class Kind { first, second, special };
  Kind kind = Kind::special;
  std::int64_t type_id = 0;
  std::vector<std::uint32_t> ids;
};
using Template = std::vector<TemplatePiece>;

/// One pass that excludes the spaces at both ends of a token from its offsets.
struct OffsetTrim {
  /// Whether the tokenizer inserts a space before the first word.
  bool add_prefix_space = false;
  /// For each text of a pair: whether an earlier post-processor has already put
  /// a special token before the text. The first token of the text is then
  /// treated like any other token.
  bool follows_special_token[2] = {false, false};
};

struct PostProcessor {
  /// The template for a single text. The default inserts no special tokens.
  Template single{{TemplatePiece::Kind::first, 0, {}}};
  Template pair{
      {TemplatePiece::Kind::first, 0, {}},
      {TemplatePiece::Kind::second, 1, {}}};
  std::vector<OffsetTrim> trims;
  /// Whether `trims` is not empty.
  bool trim_offsets = false;
  /// Whether the template determines the type ids of the tokens that truncation
  /// cuts off. If this is false, or if no special tokens are added, the type id
  /// of such a token is the index of its text (0 or 1).
  bool overflow_has_template_types = false;

  std::size_t num_special_tokens_to_add(bool is_pair) const;
};

/// Creates the post-processor that the node describes. Throws `FormatError`
/// with the JSON path if the node is not valid.
PostProcessor make_post_processor(const JsonNode& node);

}  // namespace transformers::tokenizers
