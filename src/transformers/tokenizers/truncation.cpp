// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/truncation.h"

#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers::tokenizers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

// Windows of `length` tokens, each `stride` tokens into the one before.
std::vector<TokenRange> cut(
    std::size_t size, std::size_t length, const RowPlan& plan) {
  if (length >= size) {
    return {{0, size}};
  }
  if (length == 0) {
    return {{0, 0}, {0, size}};
  }
  const auto stride = static_cast<std::size_t>(plan.stride);
  if (stride >= length) {
    throw ArgumentError(
        str_cat(
            "the stride of ",
            stride,
            " leaves nothing of the ",
            length,
            " tokens that remain of a text"),
        "use a smaller stride, or a larger max_length");
  }
  std::vector<TokenRange> parts;
  for (std::size_t at = 0;; at += length - stride) {
    const std::size_t end = std::min(at + length, size);
    if (plan.truncation_side == Side::right) {
      parts.push_back({at, end});
    } else {
      parts.push_back({size - end, size - at});
    }
    if (end == size) {
      return parts;
    }
  }
}

// The longer text gives up tokens first; the odd one stays with it.
std::pair<std::size_t, std::size_t> longest_first(
    std::size_t first, std::size_t second, std::size_t room) {
  const bool swapped = first > second;
  std::size_t shorter = std::min(first, second);
  std::size_t longer =
      shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return swapped ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

std::size_t room_for_text(std::size_t special, const RowPlan& plan) {
  const auto max_length = static_cast<std::size_t>(plan.max_length);
  if (max_length < special) {
    throw ArgumentError(
        str_cat(
            "max_length is ",
            max_length,
            ", and the special tokens alone are ",
            special),
        "use a larger max_length, or add_special_tokens = false");
  }
  return max_length - special;
}

[[noreturn]] void throw_too_short(
    const char* which, std::size_t size, std::size_t excess) {
  throw ArgumentError(
      str_cat(
          "the ",
          which,
          " text has ",
          size,
          " tokens, too few to make up for ",
          excess,
          " too many"),
      "truncate with \"longest_first\", or use a larger max_length");
}

}  // namespace

Parts truncate(
    std::size_t first,
    const std::size_t* second,
    std::size_t special,
    const RowPlan& plan) {
  const std::size_t other = second == nullptr ? 0 : *second;
  Parts parts{{{0, first}}, {{0, other}}};
  if (plan.truncation == TruncationStrategy::do_not_truncate) {
    return parts;
  }
  const std::size_t room = room_for_text(special, plan);
  if (first + other <= room) {
    return parts;
  }
  if (room == 0) {
    return {cut(first, 0, plan), cut(other, 0, plan)};
  }
  const std::size_t excess = first + other - room;
  if (plan.truncation == TruncationStrategy::longest_first) {
    const auto [keep, keep_other] = longest_first(first, other, room);
    return {cut(first, keep, plan), cut(other, keep_other, plan)};
  }
  if (plan.truncation == TruncationStrategy::only_first) {
    if (first <= excess) {
      throw_too_short("first", first, excess);
    }
    parts.first = cut(first, first - excess, plan);
    return parts;
  }
  if (second == nullptr) {
    throw ArgumentError(
        "truncation is \"only_second\", and there is one text",
        "pass a second text, or truncate with \"longest_first\"");
  }
  if (other <= excess) {
    throw_too_short("second", other, excess);
  }
  parts.second = cut(other, other - excess, plan);
  return parts;
}

}  // namespace transformers::tokenizers
