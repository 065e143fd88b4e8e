// SPDX-License-Identifier: Apache-2.0
// Which tokens of one or two texts stay, and how the rest is dealt out.
#pragma once

#include <cstddef>
#include <vector>

#include "transformers/tokenizers/rows.h"

namespace transformers::tokenizers {

/// Tokens [begin, end) of a text.
struct TokenRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

/// The part of each text that stays, first, and the parts cut off.
struct Parts {
  std::vector<TokenRange> first;
  std::vector<TokenRange> second;
};

/// Parts of texts of these sizes, with room for `special` special tokens.
/// Throws `ArgumentError` when they cannot be cut as asked.
Parts truncate(
    std::size_t first,
    const std::size_t* second,
    std::size_t special,
    const RowPlan& plan);

}  // namespace transformers::tokenizers
