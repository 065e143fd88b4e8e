// SPDX-License-Identifier: Apache-2.0
// Character classes for the tokenizer stages, and functions for well-formed
// UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace transformers::tokenizers {

enum CharacterClass : std::uint16_t {
  kLetter = 1 << 0,
  kNumber = 1 << 1,
  kSpace = 1 << 2,
  kWord = 1 << 3,
  kNumeric = 1 << 4,
  kPunct = 1 << 5,
  kControl = 1 << 6,
  kNonspacingMark = 1 << 7,
  kCombiningMark = 1 << 8,
  kCjk = 1 << 9,
  kHasLower = 1 << 10,
  kHasCombiningClass = 1 << 11,  // The combining class is not 0.
  kDecomposes = 1 << 12,
  kCompatDecomposes = 1 << 13,     // Decomposes in NFKC and NFKD.
  kMark = 1 << 14,                 // \p{M} in regular expressions.
  kPunctuationOrSymbol = 1 << 15,  // \p{P} or \p{S}.
};

/// The classes of every character. The table has two levels, so that text in
/// one script uses only a few cache lines.
class CharacterTable {
 public:
  static const CharacterTable& get();
  std::uint16_t operator[](char32_t c) const {
    return c < 0x110000 ? classes_[blocks_[c >> 8] * 256u + (c & 255)] : 0;
  }

 private:
  CharacterTable();
  std::uint16_t blocks_[0x1100];
  std::uint16_t* classes_;
};

inline bool is_a(char32_t c, std::uint16_t classes) {
  return (CharacterTable::get()[c] & classes) != 0;
}

/// The lower case of one character. `second` is set only for U+0130, because
/// its lower case consists of two characters.
struct LowerCase {
  char32_t first;
  char32_t second;  // 0 if there is none.
};
LowerCase to_lower(char32_t c);

inline std::size_t utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/// Reads the character at `at` and sets `length` to its length in bytes. The
/// text must be well-formed UTF-8.
inline char32_t read_character(const char* at, std::size_t& length) {
  const auto* b = reinterpret_cast<const unsigned char*>(at);
  if (b[0] < 0x80) {
    length = 1;
    return b[0];
  }
  if (b[0] < 0xE0) {
    length = 2;
    return ((b[0] & 0x1Fu) << 6) | (b[1] & 0x3Fu);
  }
  if (b[0] < 0xF0) {
    length = 3;
    return ((b[0] & 0x0Fu) << 12) | ((b[1] & 0x3Fu) << 6) | (b[2] & 0x3Fu);
  }
  length = 4;
  return ((b[0] & 0x07u) << 18) | ((b[1] & 0x3Fu) << 12) |
         ((b[2] & 0x3Fu) << 6) | (b[3] & 0x3Fu);
}

/// Returns the last character of a non-empty text.
char32_t last_character(std::string_view text);
void append_character(std::string& text, char32_t c);
bool is_ascii(std::string_view text);
std::size_t count_characters(std::string_view text);
/// Returns the offset of the first byte that is not valid UTF-8, or `npos`.
/// Fast for ASCII text.
std::size_t find_invalid_utf8(std::string_view text);
/// Replaces bytes that are not UTF-8 with U+FFFD, as Rust and Python do.
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace transformers::tokenizers
