// SPDX-License-Identifier: Apache-2.0
// Text rewriting shared by several normalizers.
#pragma once

#include <cstdint>

#include "tokenizers/text/aligned_text.h"

namespace transformers::tokenizers {

/// Rewrites a text: calls `step(rewriter, character, bytes)` for each
/// character. `bytes` is the character's range in the old text.
template <typename Step>
void rewrite_characters(AlignedText& text, Step step) {
  Rewriter out(text);
  for (std::size_t at = 0; at < text.text.size();) {
    std::size_t length = 0;
    const char32_t c = read_character(text.text.data() + at, length);
    const Span bytes{
        static_cast<std::uint32_t>(at),
        static_cast<std::uint32_t>(at + length)};
    step(out, c, bytes);
    at += length;
  }
  out.finish();
}

void lowercase(AlignedText& text);
/// Removes all characters that belong to one of these classes.
void drop(AlignedText& text, std::uint16_t classes);
/// Inserts `prefix` before a non-empty text.
void prepend(AlignedText& text, std::string_view prefix);

}  // namespace transformers::tokenizers
