// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/bpe_parts.h"

#include <algorithm>
#include <bit>

#include "tokenizers/text/byte_level.h"

namespace transformers::tokenizers {

CharacterIds::CharacterIds(const Vocabulary& vocabulary) {
  vocabulary.for_each([&](std::string_view token, std::uint32_t id) {
    if (token.empty() ||
        token.size() != utf8_length(static_cast<unsigned char>(token[0]))) {
      return;
    }
    std::size_t length = 0;
    const char32_t c = read_character(token.data(), length);
    if (c >= 0x110000) {
      return;
    }
    auto& block = blocks_[c >> 8];
    if (!block) {
      block = std::make_unique<std::uint32_t[]>(256);
      std::fill_n(block.get(), 256, kNone);
    }
    block[c & 255] = id;
  });
}

PairFilter::PairFilter(std::size_t pairs) {
  // At most one bit in sixteen is set. The minimum size is 8 KiB.
  const std::size_t bits =
      std::bit_ceil(std::max<std::size_t>(pairs * 16, 1 << 16));
  shift_ = 64 - std::countr_zero(bits);
  words_.resize(bits / 64);
}

namespace {

class CharacterParts : public BpeParts {
 public:
  CharacterParts(
      const Vocabulary& vocabulary,
      const MergeTable& merges,
      const CharacterIds* characters)
      : characters_(characters), joined_(vocabulary.size()) {
    merges.for_each([&](std::uint32_t left, std::uint32_t right, const Merge&) {
      const auto left_text = vocabulary.text(left);
      const auto right_text = vocabulary.text(right);
      if (left_text && right_text && !left_text->empty() &&
          !right_text->empty()) {
        std::size_t length = 0;
        joined_.add(
            last_character(*left_text),
            read_character(right_text->data(), length));
      }
    });
  }

  std::size_t first_part(std::string_view text) const override {
    std::size_t length = 0;
    char32_t previous = read_character(text.data(), length);
    for (std::size_t at = length; at < text.size(); at += length) {
      const char32_t c = read_character(text.data() + at, length);
      if (!joined_.may_contain(previous, c) && is_known(previous) &&
          is_known(c)) {
        return at;
      }
      previous = c;
    }
    return text.size();
  }

 private:
  bool is_known(char32_t c) const {
    return characters_ == nullptr || (*characters_)[c] != CharacterIds::kNone;
  }

  const CharacterIds* characters_;
  PairFilter joined_;
};

// Returns up to four bytes as one number. The number is unique: only U+0000
// contains a zero byte, and U+0000 is one byte long.
std::uint32_t packed(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

// Returns the bytes that a token stands for; empty if a character of the token
// does not stand for a byte, because such a token does not occur in any text.
std::string bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    std::size_t length = 0;
    const int byte = unicode_to_byte(read_character(token.data() + at, length));
    if (byte < 0) {
      return {};
    }
    bytes.push_back(static_cast<char>(byte));
    at += length;
  }
  return bytes;
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Returns the last character of a token, or the whole token if it is the end of
// a character. Returns an empty text if the token ends inside a character.
std::string_view tail_of(std::string_view token) {
  std::size_t begin = token.size();
  do {
    --begin;
  } while (begin > 0 && is_continuation(token[begin]) &&
           token.size() - begin < 4);
  if (is_continuation(token[begin])) {
    return begin == 0 ? token : std::string_view();
  }
  const std::size_t length =
      utf8_length(static_cast<unsigned char>(token[begin]));
  return token.size() - begin == length ? token.substr(begin)
                                        : std::string_view();
}

// Returns the first character of a token, or the whole token if it is the
// beginning of a character. Returns an empty text if the token begins inside a
// character.
std::string_view head_of(std::string_view token) {
  if (is_continuation(token[0])) {
    return {};
  }
  return token.substr(0, utf8_length(static_cast<unsigned char>(token[0])));
}

class ByteParts : public BpeParts {
 public:
  ByteParts(const Vocabulary& vocabulary, const MergeTable& merges)
      : joined_(vocabulary.size()) {
    merges.for_each([&](std::uint32_t left, std::uint32_t right, const Merge&) {
      const auto left_text = vocabulary.text(left);
      const auto right_text = vocabulary.text(right);
      if (left_text && right_text) {
        add(bytes_of_token(*left_text), bytes_of_token(*right_text));
      }
    });
  }

  std::size_t first_part(std::string_view text) const override {
    std::size_t begin = 0;
    std::size_t at = utf8_length(static_cast<unsigned char>(text[0]));
    while (at < text.size()) {
      const std::size_t length =
          utf8_length(static_cast<unsigned char>(text[at]));
      if (!may_join(text.substr(begin, at - begin), text.substr(at, length))) {
        return at;
      }
      begin = at;
      at += length;
    }
    return text.size();
  }

 private:
  void add(const std::string& left, const std::string& right) {
    if (left.empty() || right.empty()) {
      return;
    }
    const std::string_view tail = tail_of(left);
    const std::string_view head = head_of(right);
    if (!tail.empty() && !head.empty()) {
      joined_.add(packed(tail), packed(head));
    }
  }
  // The token on the left ends with all bytes of the first character or only
  // with its last bytes. The token on the right begins with all bytes of the
  // second character or only with its first bytes.
  bool may_join(std::string_view first, std::string_view second) const {
    std::uint32_t tail = 0;
    for (std::size_t i = first.size(); i > 0; --i) {
      tail |= std::uint32_t{static_cast<unsigned char>(first[i - 1])}
              << (8 * (first.size() - i));
      std::uint32_t head = 0;
      for (const char byte : second) {
        head = head << 8 | static_cast<unsigned char>(byte);
        if (joined_.may_contain(tail, head)) {
          return true;
        }
      }
    }
    return false;
  }

  PairFilter joined_;
};

}  // namespace

std::unique_ptr<BpeParts> make_character_parts(
    const Vocabulary& vocabulary,
    const MergeTable& merges,
    const CharacterIds* characters) {
  return std::make_unique<CharacterParts>(vocabulary, merges, characters);
}

std::unique_ptr<BpeParts> make_byte_parts(
    const Vocabulary& vocabulary, const MergeTable& merges) {
  return std::make_unique<ByteParts>(vocabulary, merges);
}

}  // namespace transformers::tokenizers
