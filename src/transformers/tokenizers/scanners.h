// SPDX-License-Identifier: Apache-2.0
// Hand-written scanners for the expressions that byte-level tokenizers split
// text with. Each calls `emit(begin, end)` for piece after piece; together the
// pieces are the text, and every byte is looked at a bounded number of times.
#pragma once

#include <cstdint>
#include <string_view>

#include "transformers/tokenizers/unicode.h"

namespace transformers::tokenizers {

/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
inline constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// Llama 3 (three digits at most) and Qwen 2 (one).
inline constexpr std::string_view kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Scanner { none, gpt2, llama3, qwen2 };

/// The scanner for an expression, if there is one.
inline Scanner scanner_for(std::string_view expression) {
  return expression == kGpt2Expression     ? Scanner::gpt2
         : expression == kLlama3Expression ? Scanner::llama3
         : expression == kQwen2Expression  ? Scanner::qwen2
                                           : Scanner::none;
}

/// What a byte of ASCII is to the scanners; others are looked up by character.
enum ScanClass : std::uint8_t { kOther, kAlpha, kDigit, kBlank, kWide };

struct ScanTable {
  std::uint8_t of[256];
  constexpr ScanTable() : of() {
    for (int c = 0; c < 256; ++c) {
      const bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      const bool blank = (c >= 9 && c <= 13) || c == ' ';
      of[c] = c >= 128               ? kWide
              : alpha                ? kAlpha
              : c >= '0' && c <= '9' ? kDigit
              : blank                ? kBlank
                                     : kOther;
    }
  }
};
inline constexpr ScanTable kScan{};

/// A cursor over well-formed text.
class Scan {
 public:
  explicit Scan(std::string_view text)
      : data_(text.data()), size_(text.size()) {}

  std::size_t size() const { return size_; }
  unsigned char byte(std::size_t at) const {
    return static_cast<unsigned char>(data_[at]);
  }
  /// The class of the character at `at`, and how many bytes it has.
  std::uint8_t classify(std::size_t at, std::size_t& length) const {
    length = 1;
    const std::uint8_t found = kScan.of[byte(at)];
    return found != kWide ? found : classify_wide(at, length);
  }
  /// The end of the run of this class that begins at `at`.
  std::size_t run(std::size_t at, std::uint8_t wanted) const {
    while (at < size_) {
      const std::uint8_t found = kScan.of[byte(at)];
      if (found == wanted) {
        ++at;
        continue;
      }
      std::size_t length = 0;
      if (found != kWide || classify_wide(at, length) != wanted) {
        break;
      }
      at += length;
    }
    return at;
  }

 private:
  std::uint8_t classify_wide(std::size_t at, std::size_t& length) const {
    const std::uint16_t classes =
        CharacterTable::get()[read_character(data_ + at, length)];
    return (classes & kLetter) != 0   ? kAlpha
           : (classes & kNumber) != 0 ? kDigit
           : (classes & kSpace) != 0  ? kBlank
                                      : kOther;
  }

  const char* data_;
  std::size_t size_;
};

/// `\s+(?!\S)|\s+`: blanks up to the last one, which goes to the next word.
inline std::size_t end_of_blanks(
    const Scan& text, std::size_t begin, std::size_t end) {
  if (end == text.size()) {
    return end;
  }
  std::size_t last = end - 1;
  while (last > begin && (text.byte(last) & 0xC0) == 0x80) {
    --last;
  }
  return last > begin ? last : end;
}

inline std::size_t gpt2_contraction(const Scan& text, std::size_t at) {
  const std::size_t left = text.size() - at;
  if (left < 2) {
    return 0;
  }
  const unsigned char a = text.byte(at + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') {
    return 2;
  }
  const unsigned char b = left > 2 ? text.byte(at + 2) : 0;
  const bool three =
      ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l');
  return three ? 3 : 0;
}

template <typename Emit>
void scan_gpt2(std::string_view whole, Emit emit) {
  const Scan text(whole);
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t begin = at;
    std::size_t length = 0;
    std::uint8_t kind = text.classify(at, length);
    if (text.byte(at) == '\'') {
      if (const std::size_t size = gpt2_contraction(text, at)) {
        emit(begin, at += size);
        continue;
      }
    }
    if (text.byte(at) == ' ' && at + 1 < text.size()) {
      std::size_t next_length = 0;
      const std::uint8_t next = text.classify(at + 1, next_length);
      if (next != kBlank) {
        kind = next;
        length = 1 + next_length;
      }
    }
    if (kind != kBlank) {
      at = text.run(at + length, kind);
    } else {
      at = end_of_blanks(text, at, text.run(at + length, kBlank));
    }
    emit(begin, at);
  }
}

std::size_t llama_contraction(std::string_view text, std::size_t at);

template <typename Emit>
void scan_llama3(std::string_view whole, std::size_t digits, Emit emit) {
  const Scan text(whole);
  const auto newline = [&](std::size_t i) {
    return text.byte(i) == '\n' || text.byte(i) == '\r';
  };
  const auto newlines = [&](std::size_t i) {
    while (i < text.size() && newline(i)) {
      ++i;
    }
    return i;
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    std::size_t length = 0;
    const std::uint8_t kind = text.classify(at, length);
    if (text.byte(at) == '\'') {
      if (const std::size_t size = llama_contraction(whole, at)) {
        emit(begin, at += size);
        continue;
      }
    }
    if (kind == kAlpha) {
      emit(begin, at = text.run(at + length, kAlpha));
      continue;
    }
    if (kind == kDigit) {
      for (std::size_t n = 0; n < digits && at < text.size(); ++n) {
        if (text.classify(at, length) != kDigit) {
          break;
        }
        at += length;
      }
      emit(begin, at);
      continue;
    }
    std::size_t next = at + length;
    std::size_t next_length = 0;
    const std::uint8_t after = next < text.size()
                                   ? text.classify(next, next_length)
                                   : static_cast<std::uint8_t>(kBlank);
    if (after == kAlpha && !newline(at)) {
      emit(begin, at = text.run(next + next_length, kAlpha));
      continue;
    }
    if (kind == kOther || (text.byte(at) == ' ' && after == kOther)) {
      emit(begin, at = newlines(text.run(next, kOther)));
      continue;
    }
    const std::size_t end = text.run(next, kBlank);
    std::size_t last = end;
    while (last > at && !newline(last - 1)) {
      --last;
    }
    emit(begin, at = last > at ? last : end_of_blanks(text, at, end));
  }
}

template <typename Emit>
void scan(Scanner scanner, std::string_view text, Emit emit) {
  switch (scanner) {
    case Scanner::gpt2:
      return scan_gpt2(text, emit);
    case Scanner::llama3:
      return scan_llama3(text, 3, emit);
    case Scanner::qwen2:
      return scan_llama3(text, 1, emit);
    case Scanner::none:
      break;
  }
  if (!text.empty()) {
    emit(std::size_t{0}, text.size());
  }
}

}  // namespace transformers::tokenizers
