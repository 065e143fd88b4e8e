// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/pre_tokenizers/splitting.h"

#include <algorithm>

namespace transformers::tokenizers {

SplitBehavior split_behavior(const JsonNode& node) {
  const std::string& name = node.as_string();
  if (name == "Removed") {
    return SplitBehavior::removed;
  }
  if (name == "Isolated") {
    return SplitBehavior::isolated;
  }
  if (name == "MergedWithPrevious") {
    return SplitBehavior::merged_with_previous;
  }
  if (name == "MergedWithNext") {
    return SplitBehavior::merged_with_next;
  }
  if (name == "Contiguous") {
    return SplitBehavior::contiguous;
  }
  node.fail_unknown(
      "split behavior",
      name,
      {"Removed",
       "Isolated",
       "MergedWithPrevious",
       "MergedWithNext",
       "Contiguous"});
}

namespace {

// Joins a segment to the previous part if `join` returns true.
template <typename Iterator, typename Join>
void fold(Iterator begin, Iterator end, Join join, std::vector<Span>& parts) {
  bool previous = false;
  for (auto at = begin; at != end; ++at) {
    if (join(at->match, previous) && !parts.empty()) {
      parts.back().begin = std::min(parts.back().begin, at->range.begin);
      parts.back().end = std::max(parts.back().end, at->range.end);
    } else {
      parts.push_back(at->range);
    }
    previous = at->match;
  }
}

}  // namespace

void apply_split_behavior(
    const std::vector<MatchSegment>& segments,
    SplitBehavior behavior,
    std::uint32_t offset,
    std::vector<Span>& out) {
  const auto keep = [&](const Span& part) {
    if (part.end > part.begin) {
      out.push_back({part.begin + offset, part.end + offset});
    }
  };
  std::vector<Span> parts;
  const auto match_after_none = [](bool match, bool previous) {
    return match && !previous;
  };
  switch (behavior) {
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      for (const MatchSegment& segment : segments) {
        if (behavior == SplitBehavior::isolated || !segment.match) {
          keep(segment.range);
        }
      }
      return;
    case SplitBehavior::contiguous:
      fold(
          segments.begin(),
          segments.end(),
          [](bool match, bool previous) { return match == previous; },
          parts);
      break;
    case SplitBehavior::merged_with_previous:
      fold(segments.begin(), segments.end(), match_after_none, parts);
      break;
    case SplitBehavior::merged_with_next:
      fold(segments.rbegin(), segments.rend(), match_after_none, parts);
      std::reverse(parts.begin(), parts.end());
      break;
  }
  for (const Span& part : parts) {
    keep(part);
  }
}

void match_segments_of(
    const std::vector<Span>& matches,
    std::uint32_t size,
    bool invert,
    std::vector<MatchSegment>& out) {
  std::uint32_t at = 0;
  for (const Span& match : matches) {
    if (at < match.begin) {
      out.push_back({{at, match.begin}, invert});
    }
    out.push_back({match, !invert});
    at = match.end;
  }
  if (at < size) {
    out.push_back({{at, size}, invert});
  }
}

}  // namespace transformers::tokenizers
