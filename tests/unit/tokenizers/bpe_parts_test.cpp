// SPDX-License-Identifier: Apache-2.0
// A BPE model must return the same tokens for a whole text as for its parts,
// between which no merge is possible.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tokenizers/models/bpe.h"
#include "tokenizers/text/byte_level.h"

namespace transformers::tokenizers {
namespace {

// A model with random merges of `symbols`; `others` are tokens without merges.
Bpe random_bpe(
    std::mt19937& random,
    const std::vector<std::string>& symbols,
    const std::vector<std::string>& others,
    BpeOptions options = {}) {
  Vocabulary vocabulary;
  std::uint32_t next_id = 0;
  std::vector<std::string> merged;  // The tokens that merges may join.
  for (const std::string& symbol : symbols) {
    if (vocabulary.add(symbol, next_id)) {
      merged.push_back(symbol);
      ++next_id;
    }
  }
  for (const std::string& other : others) {
    next_id += vocabulary.add(other, next_id) ? 1 : 0;
  }
  MergeTable merges;
  const std::size_t count = 5 + random() % 50;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::string left = merged[random() % merged.size()];
    const std::string right = merged[random() % merged.size()];
    if (vocabulary.add(left + right, next_id)) {
      merged.push_back(left + right);
      ++next_id;
    }
    merges.set(
        *vocabulary.find(left),
        *vocabulary.find(right),
        {rank, *vocabulary.find(left + right)});
  }
  return {std::move(options), std::move(vocabulary), std::move(merges)};
}

std::string random_word(
    std::mt19937& random, const std::vector<std::string>& characters) {
  std::string text;
  for (std::size_t n = 1 + random() % 60; n > 0; --n) {
    text += characters[random() % characters.size()];
  }
  return text;
}

// Returns the number of parts.
std::size_t compare_parts(const Bpe& model, std::string_view text) {
  std::vector<std::uint32_t> whole;
  TokenSink whole_sink{whole};
  model.tokenize(text, whole_sink);
  std::vector<std::uint32_t> joined;
  TokenSink part_sink{joined};
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    const std::size_t size = model.first_part(text.substr(at));
    model.tokenize(text.substr(at, size), part_sink);
    at += size;
  }
  EXPECT_EQ(joined, whole) << text;
  return count;
}

TEST(BpeParts, HaveTheTokensOfTheWholeText) {
  const std::vector<std::string> known = {
      "a", "b", "c", "d", "e", "é", "ß", "中", "▁", "😀", "?"};
  auto all = known;
  all.insert(all.end(), {"x", "文", "\u0301"});  // Unknown characters.
  std::mt19937 random(1);
  std::size_t parts = 0;
  for (int round = 0; round < 60; ++round) {
    BpeOptions options;
    options.unk_token = round % 3 == 0 ? "" : "?";
    options.fuse_unk = round % 2 == 0;
    const Bpe model = random_bpe(random, known, {}, options);
    for (int i = 0; i < 50; ++i) {
      parts += compare_parts(model, random_word(random, all));
    }
  }
  // With fewer parts, the test would not be meaningful.
  EXPECT_GT(parts, 20'000u);
}

TEST(BpeParts, HaveTheTokensOfTheWholeTextWithByteFallback) {
  const std::vector<std::string> known = {
      "a", "b", "中", "▁", "?", "<0xE6>", "<0x96>", "<0x87>", "<0x78>"};
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    BpeOptions options;
    options.unk_token = "?";
    options.byte_fallback = true;
    options.fuse_unk = round % 2 == 0;
    const Bpe model = random_bpe(random, known, {}, options);
    for (int i = 0; i < 50; ++i) {
      compare_parts(
          model, random_word(random, {"a", "b", "中", "▁", "文", "x", "é"}));
    }
  }
}

// If every byte has a token that no merge joins, a text is also split next to
// characters that have no token, such as the end of a line in Llama 2.
TEST(BpeParts, AreSplitAtUnknownCharactersWithByteFallback) {
  const std::string digits = "0123456789ABCDEF";
  std::vector<std::string> bytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes.push_back(
        std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
  }
  BpeOptions options;
  options.byte_fallback = true;
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const Bpe model = random_bpe(random, {"a", "b", "▁"}, bytes, options);
    for (int i = 0; i < 50; ++i) {
      compare_parts(model, random_word(random, {"a", "b", "▁", "\n", "文"}));
    }
    EXPECT_EQ(compare_parts(model, "\n\n文文"), 4u);
  }
}

TEST(BpeParts, HaveTheTokensOfTheWholeTextWithRawBytes) {
  std::vector<std::string> bytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes.emplace_back();
    append_character(bytes.back(), byte_to_unicode_table()[byte]);
  }
  const std::vector<std::string> characters = {
      "a", " ", "é", "è", "中", "丰", "乭", "😀", "😁"};
  // Only bytes of these characters can be merged.
  std::vector<std::string> symbols;
  for (const std::string& character : characters) {
    for (const char byte : character) {
      symbols.push_back(bytes[static_cast<unsigned char>(byte)]);
    }
  }
  std::mt19937 random(3);
  std::size_t parts = 0;
  for (int round = 0; round < 60; ++round) {
    Bpe model = random_bpe(random, symbols, bytes);
    ASSERT_TRUE(model.use_raw_bytes());
    for (int i = 0; i < 50; ++i) {
      parts += compare_parts(model, random_word(random, characters));
    }
  }
  EXPECT_GT(parts, 20'000u);
}

}  // namespace
}  // namespace transformers::tokenizers
