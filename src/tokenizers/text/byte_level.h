// SPDX-License-Identifier: Apache-2.0
// GPT-2's mapping of bytes to printable Unicode characters.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "tokenizers/text/aligned_text.h"

namespace transformers::tokenizers {

/// Returns a table with the character for each byte.
const std::array<char32_t, 256>& byte_to_unicode_table();
/// Returns the byte that a character stands for, or -1 if there is none.
int unicode_to_byte(char32_t c);

/// Replaces every byte of the text with its character.
void bytes_to_unicode(AlignedText& text);
std::string bytes_to_unicode(std::string_view bytes);

}  // namespace transformers::tokenizers
