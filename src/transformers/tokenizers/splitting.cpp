// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/splitting.h"

#include <algorithm>

namespace transformers::tokenizers {

SplitBehavior split_behavior(const JsonNode& node) {
  const std::string& word = node.as_string();
  if (word == "Removed") {
    return SplitBehavior::removed;
  }
  if (word == "Isolated") {
    return SplitBehavior::isolated;
  }
  if (word == "MergedWithPrevious") {
    return SplitBehavior::merged_with_previous;
  }
  if (word == "MergedWithNext") {
    return SplitBehavior::merged_with_next;
  }
  if (word == "Contiguous") {
    return SplitBehavior::contiguous;
  }
  node.fail_unknown(
      "behavior of a split",
      word,
      {"Removed",
       "Isolated",
       "MergedWithPrevious",
       "MergedWithNext",
       "Contiguous"});
}

namespace {

// Joins a stretch to the part before it when `join` says so.
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

void cut(
    const std::vector<Stretch>& stretches,
    SplitBehavior behavior,
    std::uint32_t offset,
    std::vector<Span>& out) {
  std::vector<Span> parts;
  const auto match_after_none = [](bool match, bool previous) {
    return match && !previous;
  };
  switch (behavior) {
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      for (const Stretch& stretch : stretches) {
        if (behavior == SplitBehavior::isolated || !stretch.match) {
          out.push_back(
              {stretch.range.begin + offset, stretch.range.end + offset});
        }
      }
      return;
    case SplitBehavior::contiguous:
      fold(
          stretches.begin(),
          stretches.end(),
          [](bool match, bool previous) { return match == previous; },
          parts);
      break;
    case SplitBehavior::merged_with_previous:
      fold(stretches.begin(), stretches.end(), match_after_none, parts);
      break;
    case SplitBehavior::merged_with_next:
      fold(stretches.rbegin(), stretches.rend(), match_after_none, parts);
      std::reverse(parts.begin(), parts.end());
      break;
  }
  for (const Span& part : parts) {
    if (part.end > part.begin) {
      out.push_back({part.begin + offset, part.end + offset});
    }
  }
}

void stretches_of(
    const std::vector<Span>& matches,
    std::uint32_t size,
    bool invert,
    std::vector<Stretch>& out) {
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
