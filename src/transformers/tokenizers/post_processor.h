// SPDX-License-Identifier: Apache-2.0
// The last stage: which special tokens go where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transformers/tokenizers/json_node.h"

namespace transformers::tokenizers {

/// One place of a template: a sequence, or tokens.
struct TemplatePiece {
  enum class Kind { first, second, special };
  Kind kind = Kind::special;
  std::int64_t type_id = 0;
  std::vector<std::uint32_t> ids;
};
using Template = std::vector<TemplatePiece>;

struct PostProcessor {
  /// Without special tokens until a file says otherwise.
  Template single{{TemplatePiece::Kind::first, 0, {}}};
  Template pair{
      {TemplatePiece::Kind::first, 0, {}},
      {TemplatePiece::Kind::second, 1, {}}};
  /// Whether the spaces at both ends of a token are outside its offsets, and
  /// whether a first space was put there by the tokenizer.
  bool trim_offsets = false;
  bool add_prefix_space = false;

  std::size_t num_special_tokens_to_add(bool is_pair) const;
};

/// Makes what the node describes. Throws `FormatError` naming the JSON path.
PostProcessor make_post_processor(const JsonNode& node);

}  // namespace transformers::tokenizers
