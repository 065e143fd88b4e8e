// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/text/byte_level.h"

namespace transformers::tokenizers {
namespace {

bool maps_to_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = maps_to_itself(byte) ? byte : next++;
  }
  return characters;
}

}  // namespace

const std::array<char32_t, 256>& byte_to_unicode_table() {
  static const std::array<char32_t, 256> characters = make_characters();
  return characters;
}

int unicode_to_byte(char32_t c) {
  static const std::array<std::int16_t, 512> bytes = [] {
    std::array<std::int16_t, 512> result;
    result.fill(-1);
    for (unsigned byte = 0; byte < 256; ++byte) {
      result[byte_to_unicode_table()[byte]] = static_cast<std::int16_t>(byte);
    }
    return result;
  }();
  return c < bytes.size() ? bytes[c] : -1;
}

void bytes_to_unicode(AlignedText& text) {
  Rewriter out(text);
  for (std::size_t at = 0; at < text.text.size(); ++at) {
    out.put(
        byte_to_unicode_table()[static_cast<unsigned char>(text.text[at])], at);
  }
  out.finish();
}

std::string bytes_to_unicode(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    append_character(
        text, byte_to_unicode_table()[static_cast<unsigned char>(byte)]);
  }
  return text;
}

}  // namespace transformers::tokenizers
