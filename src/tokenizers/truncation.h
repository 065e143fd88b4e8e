// SPDX-License-Identifier: Apache-2.0
// Truncates one or two texts and splits the text that is cut off into
// overlapping parts.
#pragma once

#include <cstddef>
#include <vector>

#include "tokenizers/rows.h"

namespace transformers::tokenizers {

/// A range of tokens in a text: [begin, end).
struct TokenRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

/// For each text: the part that is kept, followed by the parts that are cut
/// off.
struct TruncatedParts {
  std::vector<TokenRange> first;
  std::vector<TokenRange> second;
};

/// Truncates one or two texts. `first` and `*second` are the numbers of tokens
/// in the texts; `second` is null for a single text. Leaves room for `special`
/// special tokens. Throws `ArgumentError` when the texts cannot be truncated as
/// requested.
TruncatedParts truncate(
    std::size_t first,
    const std::size_t* second,
    std::size_t special,
    const ResolvedOptions& resolved);

}  // namespace transformers::tokenizers
