// SPDX-License-Identifier: Apache-2.0
// Finds positions in a long word at which the word can be split without
// changing its BPE tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizers/models/merge_table.h"
#include "tokenizers/models/vocabulary.h"
#include "tokenizers/text/unicode.h"

namespace transformers::tokenizers {

/// The ids of the tokens that consist of one character.
class CharacterIds {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  explicit CharacterIds(const Vocabulary& vocabulary);
  std::uint32_t operator[](char32_t c) const {
    const std::uint32_t* block = blocks_[c >> 8].get();
    return block == nullptr ? kNone : block[c & 255];
  }

 private:
  std::array<std::unique_ptr<std::uint32_t[]>, 0x1100> blocks_;
};

/// A set of pairs of numbers, as a Bloom filter: `may_contain` may return true
/// for a pair that was never added.
class PairFilter {
 public:
  explicit PairFilter(std::size_t pairs);
  void add(std::uint32_t left, std::uint32_t right) {
    const std::size_t bit = bit_of(left, right);
    words_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  bool may_contain(std::uint32_t left, std::uint32_t right) const {
    const std::size_t bit = bit_of(left, right);
    return (words_[bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  // Uses the high bits of the product, which depend on all bits of the pair.
  std::size_t bit_of(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t pair = std::uint64_t{left} << 32 | right;
    return static_cast<std::size_t>(
        (pair ^ kHashSeed) * 0x9E3779B97F4A7C15ull >> shift_);
  }

  int shift_;
  std::vector<std::uint64_t> words_;
};

/// Splits a text into parts that can be tokenized separately.
///
/// Consider two adjacent characters. The first merge across the position
/// between them joins a token that ends with the first character and a token
/// that begins with the second character. If the model has no such merge, the
/// text can be split at this position.
///
/// Thread-safe.
class BpeParts {
 public:
  virtual ~BpeParts() = default;
  /// Returns the end of the first part of a non-empty text.
  virtual std::size_t first_part(std::string_view text) const = 0;
};

/// Creates the `BpeParts` for a model whose symbols are characters. A text is
/// never split next to a character that is not in `characters`, because the
/// tokens of such a character may depend on its neighbors. Pass null for
/// `characters` if these tokens never depend on neighbors.
std::unique_ptr<BpeParts> make_character_parts(
    const Vocabulary& vocabulary,
    const MergeTable& merges,
    const CharacterIds* characters);
/// Creates the `BpeParts` for a model whose symbols are bytes. The tokens in
/// `vocabulary` must be written in GPT-2's byte characters. A text is split
/// only between characters.
std::unique_ptr<BpeParts> make_byte_parts(
    const Vocabulary& vocabulary, const MergeTable& merges);

}  // namespace transformers::tokenizers
