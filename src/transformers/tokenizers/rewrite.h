// SPDX-License-Identifier: Apache-2.0
// Steps that several normalizers share.
#pragma once

#include <cstdint>

#include "transformers/tokenizers/aligned_text.h"

namespace transformers::tokenizers {

/// Calls `step(rewriter, character, its bytes)` for each character in turn.
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
/// Drops the characters of these classes.
void drop(AlignedText& text, std::uint16_t classes);
/// Puts `prefix` before a text that is not empty.
void prepend(AlignedText& text, std::string_view prefix);

}  // namespace transformers::tokenizers
