// SPDX-License-Identifier: Apache-2.0
// Splits pieces at the matches of a pattern.
#pragma once

#include <string>
#include <vector>

#include "tokenizers/pre_tokenizers/pre_tokenizer.h"

namespace transformers::tokenizers {

enum class SplitBehavior {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous,
};

/// Reads the name of a behavior. If the name is unknown, throws a
/// `FormatError` with the JSON path and the five valid names.
SplitBehavior split_behavior(const JsonNode& node);

/// A part of a piece, and whether it is a match.
struct MatchSegment {
  Span range;
  bool match;
};

/// Applies `behavior` to the segments of one piece, which begins at `offset`,
/// and appends the resulting parts. Drops empty parts.
void apply_split_behavior(
    const std::vector<MatchSegment>& segments,
    SplitBehavior behavior,
    std::uint32_t offset,
    std::vector<Span>& out);

/// Splits a text of `size` bytes: appends a segment for each match, and for
/// each text before, between or after the matches. If `invert` is true, matches
/// and the texts between them swap roles.
void match_segments_of(
    const std::vector<Span>& matches,
    std::uint32_t size,
    bool invert,
    std::vector<MatchSegment>& out);

/// Splits at each character for which `is_match` returns true.
template <typename IsMatch>
void split_at_characters(
    Pieces& pieces, SplitBehavior behavior, IsMatch is_match) {
  std::vector<Span> result;
  std::vector<MatchSegment> segments;
  for (const Span& piece : pieces.ranges) {
    const std::string_view view = pieces.view(piece);
    segments.clear();
    // The start of the current unmatched text.
    std::uint32_t pending = 0;
    for (std::uint32_t at = 0; at < view.size();) {
      std::size_t length = 0;
      const char32_t c = read_character(view.data() + at, length);
      const auto next = static_cast<std::uint32_t>(at + length);
      if (is_match(c)) {
        if (pending < at) {
          segments.push_back({{pending, at}, false});
        }
        segments.push_back({{at, next}, true});
        pending = next;
      }
      at = next;
    }
    const auto size = static_cast<std::uint32_t>(view.size());
    if (pending < size) {
      segments.push_back({{pending, size}, false});
    }
    apply_split_behavior(segments, behavior, piece.begin, result);
  }
  pieces.ranges.swap(result);
}

}  // namespace transformers::tokenizers
