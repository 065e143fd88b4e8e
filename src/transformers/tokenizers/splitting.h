// SPDX-License-Identifier: Apache-2.0
// Cutting pieces at matches, and what becomes of the matches.
#pragma once

#include <string>
#include <vector>

#include "transformers/tokenizers/pre_tokenizer.h"

namespace transformers::tokenizers {

enum class SplitBehavior {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous,
};

/// Throws `FormatError` naming the node and the five words.
SplitBehavior split_behavior(const JsonNode& node);

/// A stretch of a piece, and whether it is a match.
struct Stretch {
  Span range;
  bool match;
};

/// Appends what `behavior` makes of the stretches of one piece, which begins
/// at `offset`. Empty parts vanish.
void cut(
    const std::vector<Stretch>& stretches,
    SplitBehavior behavior,
    std::uint32_t offset,
    std::vector<Span>& out);

/// Appends the stretches between and at the matches.
void stretches_of(
    const std::vector<Span>& matches,
    std::uint32_t size,
    bool invert,
    std::vector<Stretch>& out);

/// Splits at each character of which `is_match` is true.
template <typename IsMatch>
void split_at_characters(
    Pieces& pieces, SplitBehavior behavior, IsMatch is_match) {
  std::vector<Span> result;
  std::vector<Stretch> stretches;
  for (const Span& piece : pieces.ranges) {
    const std::string_view view = pieces.view(piece);
    stretches.clear();
    std::uint32_t pending = 0;  // Where the current stretch without one began.
    for (std::uint32_t at = 0; at < view.size();) {
      std::size_t length = 0;
      const char32_t c = read_character(view.data() + at, length);
      const auto next = static_cast<std::uint32_t>(at + length);
      if (is_match(c)) {
        if (pending < at) {
          stretches.push_back({{pending, at}, false});
        }
        stretches.push_back({{at, next}, true});
        pending = next;
      }
      at = next;
    }
    const auto size = static_cast<std::uint32_t>(view.size());
    if (pending < size) {
      stretches.push_back({{pending, size}, false});
    }
    cut(stretches, behavior, piece.begin, result);
  }
  pieces.ranges.swap(result);
}

}  // namespace transformers::tokenizers
