// SPDX-License-Identifier: Apache-2.0
// GPT-2's spelling of bytes as printable characters.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "transformers/tokenizers/aligned_text.h"

namespace transformers::tokenizers {

/// The character that spells each byte.
const std::array<char32_t, 256>& byte_characters();
/// The byte that a character spells, or -1.
int byte_of_character(char32_t c);

/// Spells every byte of the text.
void spell_bytes(AlignedText& text);
std::string spell_bytes(std::string_view bytes);

}  // namespace transformers::tokenizers
