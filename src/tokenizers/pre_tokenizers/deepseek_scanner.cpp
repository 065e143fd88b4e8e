// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/pre_tokenizers/scanners.h"

namespace transformers::tokenizers {
namespace {

enum class CharacterKind : std::uint8_t { letter, mark, symbol, space, other };

// Reads the character at a position of a text for `kDeepSeekExpression`.
class DeepSeekText {
 public:
  explicit DeepSeekText(std::string_view text) : text_(text) {}

  std::size_t size() const { return text_.size(); }
  unsigned char byte(std::size_t at) const {
    return static_cast<unsigned char>(text_[at]);
  }
  CharacterKind kind(std::size_t at, std::size_t& length) const {
    length = 1;
    switch (kScan.of[byte(at)]) {
      case kAlpha:
        return CharacterKind::letter;
      case kWhitespace:
        return CharacterKind::space;
      case kOther:
        return byte(at) > ' ' && byte(at) < 127 ? CharacterKind::symbol
                                                : CharacterKind::other;
      case kDigit:
        return CharacterKind::other;
    }
    const std::uint16_t classes =
        CharacterTable::get()[read_character(text_.data() + at, length)];
    return (classes & kLetter) != 0                ? CharacterKind::letter
           : (classes & kMark) != 0                ? CharacterKind::mark
           : (classes & kPunctuationOrSymbol) != 0 ? CharacterKind::symbol
           : (classes & kSpace) != 0               ? CharacterKind::space
                                                   : CharacterKind::other;
  }
  bool is_newline(std::size_t at) const {
    return byte(at) == '\n' || byte(at) == '\r';
  }
  bool has_ascii_letter(std::size_t at) const {
    return at < size() && kScan.of[byte(at)] == kAlpha;
  }
  template <typename Matches>
  std::size_t run(std::size_t at, Matches matches) const {
    for (std::size_t length = 0; at < size() && matches(kind(at, length));
         at += length) {
    }
    return at;
  }

 private:
  std::string_view text_;
};

bool is_letter_or_mark(CharacterKind kind) {
  return kind == CharacterKind::letter || kind == CharacterKind::mark;
}
bool is_symbol(CharacterKind kind) {
  return kind == CharacterKind::symbol;
}
bool is_space(CharacterKind kind) {
  return kind == CharacterKind::space;
}

// Returns the end of the match of `[\p{P}\p{S}]+[\r\n]*`. `at` is the position
// after the first symbol.
std::size_t end_of_symbols(const DeepSeekText& text, std::size_t at) {
  at = text.run(at, is_symbol);
  while (at < text.size() && text.is_newline(at)) {
    ++at;
  }
  return at;
}

// Returns the end of the match of `\s*[\r\n]+|\s+(?!\S)|\s+` at `begin`.
std::size_t end_of_spaces(
    std::string_view input, const DeepSeekText& text, std::size_t begin) {
  const std::size_t end = text.run(begin, is_space);
  std::size_t last = end;
  while (last > begin && !text.is_newline(last - 1)) {
    --last;
  }
  return last > begin ? last : end_of_whitespace(Scan(input), begin, end);
}

}  // namespace

std::size_t end_of_deepseek_match(std::string_view input, std::size_t at) {
  const DeepSeekText text(input);
  std::size_t length = 0;
  const CharacterKind kind = text.kind(at, length);
  const std::size_t next = at + length;
  if (kind == CharacterKind::letter) {
    return text.run(next, is_letter_or_mark);
  }
  if (kind == CharacterKind::symbol) {
    if (text.byte(at) < 0x80 && text.has_ascii_letter(next)) {
      std::size_t end = next + 1;
      while (text.has_ascii_letter(end)) {
        ++end;
      }
      return end;
    }
    return end_of_symbols(text, next);
  }
  std::size_t next_length = 0;
  const CharacterKind next_kind =
      next < text.size() ? text.kind(next, next_length) : CharacterKind::other;
  if (is_letter_or_mark(next_kind) && !text.is_newline(at)) {
    return text.run(next + next_length, is_letter_or_mark);
  }
  if (kind == CharacterKind::mark) {
    return next;
  }
  if (text.byte(at) == ' ' && next_kind == CharacterKind::symbol) {
    return end_of_symbols(text, next + next_length);
  }
  return kind == CharacterKind::space ? end_of_spaces(input, text, at) : at;
}

}  // namespace transformers::tokenizers
