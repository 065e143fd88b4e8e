// SPDX-License-Identifier: Apache-2.0
// Hand-written scanners for the regular expressions of byte-level tokenizers.
// Each scanner calls `emit(begin, end)` for every piece. The pieces cover the
// whole text, and scanning takes linear time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tokenizers/text/unicode.h"

namespace transformers::tokenizers {

/// GPT-2's regular expression.
inline constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// The regular expressions of Llama 3 and Qwen 2. They differ only in the
/// maximum number of digits in a piece: three for Llama 3, one for Qwen 2.
inline constexpr std::string_view kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The regular expression of GPT-4. It splits texts in the same way as
/// `kLlama3Expression`.
inline constexpr std::string_view kGpt4Expression =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
/// The three regular expressions of DeepSeek V3. Each splits the pieces of the
/// previous one.
inline constexpr std::string_view kThreeDigitsExpression = R"(\p{N}{1,3})";
inline constexpr std::string_view kChineseJapaneseExpression =
    "[一-龥぀-ゟ゠-ヿ]+";
inline constexpr std::string_view kDeepSeekExpression =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Scanner {
  none,
  gpt2,
  llama3,
  qwen2,
  three_digits,
  chinese_japanese,
  deepseek
};

/// Returns the scanner for a regular expression whose matches cover the whole
/// text; `Scanner::none` if there is no such scanner.
inline Scanner scanner_for(std::string_view expression) {
  return expression == kGpt2Expression     ? Scanner::gpt2
         : expression == kLlama3Expression ? Scanner::llama3
         : expression == kGpt4Expression   ? Scanner::llama3
         : expression == kQwen2Expression  ? Scanner::qwen2
                                           : Scanner::none;
}

/// Returns the scanner for a regular expression; `Scanner::none` if there is
/// none. The scanner's pieces are the matches and the texts between them.
inline Scanner isolating_scanner_for(std::string_view expression) {
  return expression == kThreeDigitsExpression       ? Scanner::three_digits
         : expression == kChineseJapaneseExpression ? Scanner::chinese_japanese
         : expression == kDeepSeekExpression        ? Scanner::deepseek
                                                    : scanner_for(expression);
}

/// The class of a byte. `kNonAscii`: the byte's character must be looked up in
/// `CharacterTable`.
enum ScanClass : std::uint8_t {
  kOther,
  kAlpha,
  kDigit,
  kWhitespace,
  kNonAscii
};

struct ScanTable {
  std::uint8_t of[256];
  constexpr ScanTable() : of() {
    for (int c = 0; c < 256; ++c) {
      const bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      const bool whitespace = (c >= 9 && c <= 13) || c == ' ';
      of[c] = c >= 128               ? kNonAscii
              : alpha                ? kAlpha
              : c >= '0' && c <= '9' ? kDigit
              : whitespace           ? kWhitespace
                                     : kOther;
    }
  }
};
inline constexpr ScanTable kScan{};

/// A cursor over well-formed UTF-8 text.
class Scan {
 public:
  explicit Scan(std::string_view text)
      : data_(text.data()), size_(text.size()) {}

  std::size_t size() const { return size_; }
  unsigned char byte(std::size_t at) const {
    return static_cast<unsigned char>(data_[at]);
  }
  /// Returns the class of the character at `at`. Sets `length` to its length in
  /// bytes.
  std::uint8_t classify(std::size_t at, std::size_t& length) const {
    length = 1;
    const std::uint8_t char_class = kScan.of[byte(at)];
    return char_class != kNonAscii ? char_class
                                   : classify_non_ascii(at, length);
  }
  /// Returns the end of the run of characters of `expected_class` that begins
  /// at `at`.
  std::size_t run(std::size_t at, std::uint8_t expected_class) const {
    while (at < size_) {
      const std::uint8_t char_class = kScan.of[byte(at)];
      if (char_class == expected_class) {
        ++at;
        continue;
      }
      std::size_t length = 0;
      if (char_class != kNonAscii ||
          classify_non_ascii(at, length) != expected_class) {
        break;
      }
      at += length;
    }
    return at;
  }

 private:
  std::uint8_t classify_non_ascii(std::size_t at, std::size_t& length) const {
    const std::uint16_t classes =
        CharacterTable::get()[read_character(data_ + at, length)];
    return (classes & kLetter) != 0   ? kAlpha
           : (classes & kNumber) != 0 ? kDigit
           : (classes & kSpace) != 0  ? kWhitespace
                                      : kOther;
  }

  const char* data_;
  std::size_t size_;
};

/// Returns the end of the match of `\s+(?!\S)|\s+` in the whitespace from
/// `begin` to `end`. If other text follows and there are several whitespace
/// characters, the match leaves out the last one.
inline std::size_t end_of_whitespace(
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
  const bool has_two_letters =
      ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l');
  return has_two_letters ? 3 : 0;
}

template <typename Emit>
void scan_gpt2(std::string_view input, Emit emit) {
  const Scan text(input);
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
      if (next != kWhitespace) {
        kind = next;
        length = 1 + next_length;
      }
    }
    if (kind != kWhitespace) {
      at = text.run(at + length, kind);
    } else {
      at = end_of_whitespace(text, at, text.run(at + length, kWhitespace));
    }
    emit(begin, at);
  }
}

std::size_t llama_contraction(std::string_view text, std::size_t at);

template <typename Emit>
void scan_llama3(std::string_view input, std::size_t digits, Emit emit) {
  const Scan text(input);
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
      if (const std::size_t size = llama_contraction(input, at)) {
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
    const std::uint8_t next_class =
        next < text.size() ? text.classify(next, next_length)
                           : static_cast<std::uint8_t>(kWhitespace);
    if (next_class == kAlpha && !newline(at)) {
      emit(begin, at = text.run(next + next_length, kAlpha));
      continue;
    }
    if (kind == kOther || (text.byte(at) == ' ' && next_class == kOther)) {
      emit(begin, at = newlines(text.run(next, kOther)));
      continue;
    }
    const std::size_t end = text.run(next, kWhitespace);
    std::size_t last = end;
    while (last > at && !newline(last - 1)) {
      --last;
    }
    emit(begin, at = last > at ? last : end_of_whitespace(text, at, end));
  }
}

/// Calls `emit` for each group of up to three digits and for each text between
/// two groups.
template <typename Emit>
void scan_three_digits(std::string_view input, Emit emit) {
  const Scan text(input);
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t length = 0;
    if (text.classify(at, length) != kDigit) {
      at += length;
      continue;
    }
    if (begin < at) {
      emit(begin, at);
    }
    begin = at;
    for (int n = 0; n < 3 && at < text.size(); ++n) {
      if (text.classify(at, length) != kDigit) {
        break;
      }
      at += length;
    }
    emit(begin, at);
    begin = at;
  }
  if (begin < at) {
    emit(begin, at);
  }
}

inline bool is_chinese_or_kana(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

/// Calls `emit` for each run of Chinese characters and kana, and for each text
/// between two runs.
template <typename Emit>
void scan_chinese_japanese(std::string_view input, Emit emit) {
  std::size_t begin = 0;
  bool previous = false;
  for (std::size_t at = 0; at < input.size();) {
    std::size_t length = 1;
    // All characters of the class have three bytes, the first of which is 0xE3
    // to 0xE9.
    const bool other = static_cast<unsigned char>(input[at]) < 0xE3;
    const bool match =
        !other && is_chinese_or_kana(read_character(input.data() + at, length));
    if (match != previous && at > begin) {
      emit(begin, at);
      begin = at;
    }
    previous = match;
    at += other ? 1 : length;
  }
  if (begin < input.size()) {
    emit(begin, input.size());
  }
}

/// Returns the end of the match of `kDeepSeekExpression` at `at`, or `at` if
/// there is none.
std::size_t end_of_deepseek_match(std::string_view text, std::size_t at);

template <typename Emit>
void scan_deepseek(std::string_view text, Emit emit) {
  std::size_t begin = 0;  // Where the text without a match begins.
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_deepseek_match(text, at);
    if (end == at) {
      at += utf8_length(static_cast<unsigned char>(text[at]));
      continue;
    }
    if (begin < at) {
      emit(begin, at);
    }
    emit(at, end);
    at = begin = end;
  }
  if (begin < text.size()) {
    emit(begin, text.size());
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
    case Scanner::three_digits:
      return scan_three_digits(text, emit);
    case Scanner::chinese_japanese:
      return scan_chinese_japanese(text, emit);
    case Scanner::deepseek:
      return scan_deepseek(text, emit);
    case Scanner::none:
      break;
  }
  if (!text.empty()) {
    emit(std::size_t{0}, text.size());
  }
}

/// Splits a text with the first scanner, its pieces with the second, and so on.
/// `offset` is added to the positions.
template <typename Emit>
void scan_all(
    std::span<const Scanner> scanners,
    std::string_view text,
    std::size_t offset,
    Emit& emit) {
  scan(scanners[0], text, [&](std::size_t begin, std::size_t end) {
    if (scanners.size() == 1) {
      emit(offset + begin, offset + end);
    } else {
      scan_all(
          scanners.subspan(1),
          text.substr(begin, end - begin),
          offset + begin,
          emit);
    }
  });
}

}  // namespace transformers::tokenizers
