// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/truncation.h"

#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers::tokenizers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

// Windows of `length` tokens; each overlaps the previous one by `stride`.
std::vector<TokenRange> split_windows(
    std::size_t size, std::size_t length, const ResolvedOptions& resolved) {
  if (length >= size) {
    return {{0, size}};
  }
  if (length == 0) {
    return {{0, 0}, {0, size}};
  }
  const auto stride = static_cast<std::size_t>(resolved.stride);
  if (stride >= length) {
    throw ArgumentError(
        str_cat(
            "stride is ",
            stride,
            ", but it must be less than the number of text tokens per row (",
            length,
            ")"),
        "use a smaller stride or a larger max_length");
  }
  std::vector<TokenRange> parts;
  for (std::size_t at = 0;; at += length - stride) {
    const std::size_t end = std::min(at + length, size);
    if (resolved.truncation_side == Side::right) {
      parts.push_back({at, end});
    } else {
      parts.push_back({size - end, size - at});
    }
    if (end == size) {
      return parts;
    }
  }
}

// Shortens the longer text first. If both texts must be shortened and
// `max_tokens` is odd, the longer text keeps one more token than the other.
std::pair<std::size_t, std::size_t> longest_first(
    std::size_t first, std::size_t second, std::size_t max_tokens) {
  const bool swapped = first > second;
  std::size_t shorter = std::min(first, second);
  std::size_t longer =
      shorter > max_tokens ? shorter : std::max(shorter, max_tokens - shorter);
  if (shorter + longer > max_tokens) {
    shorter = max_tokens / 2;
    longer = shorter + max_tokens % 2;
  }
  return swapped ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

std::size_t max_text_tokens(
    std::size_t special, const ResolvedOptions& resolved) {
  const auto max_length = static_cast<std::size_t>(resolved.max_length);
  if (max_length < special) {
    throw ArgumentError(
        str_cat(
            "max_length is ",
            max_length,
            ", but the special tokens alone need ",
            special),
        "use a larger max_length or add_special_tokens = false");
  }
  return max_length - special;
}

[[noreturn]] void throw_text_too_short(
    const char* text_name, std::size_t size, std::size_t excess) {
  throw ArgumentError(
      str_cat(
          excess,
          excess == 1 ? " token" : " tokens",
          " must be removed from the ",
          text_name,
          " text, which has only ",
          size,
          "; at least one must remain"),
      "use truncation \"longest_first\" or a larger max_length");
}

}  // namespace

TruncatedParts truncate(
    std::size_t first,
    const std::size_t* second,
    std::size_t special,
    const ResolvedOptions& resolved) {
  const std::size_t second_size = second == nullptr ? 0 : *second;
  TruncatedParts parts{{{0, first}}, {{0, second_size}}};
  if (resolved.truncation == TruncationStrategy::do_not_truncate) {
    return parts;
  }
  const std::size_t max_tokens = max_text_tokens(special, resolved);
  if (first + second_size <= max_tokens) {
    return parts;
  }
  if (max_tokens == 0) {
    return {
        split_windows(first, 0, resolved),
        split_windows(second_size, 0, resolved)};
  }
  const std::size_t excess = first + second_size - max_tokens;
  if (resolved.truncation == TruncationStrategy::longest_first) {
    const auto [keep_first, keep_second] =
        longest_first(first, second_size, max_tokens);
    return {
        split_windows(first, keep_first, resolved),
        split_windows(second_size, keep_second, resolved)};
  }
  if (resolved.truncation == TruncationStrategy::only_first) {
    if (first <= excess) {
      throw_text_too_short("first", first, excess);
    }
    parts.first = split_windows(first, first - excess, resolved);
    return parts;
  }
  if (second == nullptr) {
    throw ArgumentError(
        "truncation is `only_second`, but there is no second text",
        "pass a second text, or use truncation \"longest_first\"");
  }
  if (second_size <= excess) {
    throw_text_too_short("second", second_size, excess);
  }
  parts.second = split_windows(second_size, second_size - excess, resolved);
  return parts;
}

}  // namespace transformers::tokenizers
