// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/word_cache.h"

#include <string>

#include <gtest/gtest.h>

namespace transformers::tokenizers {
namespace {

constexpr std::size_t kSlots = 1 << 13;

std::string word_of(std::uint32_t number) {
  return "word" + std::to_string(number);
}

ShortWords::Key key_of(const std::string& word) {
  return ShortWords::key_of(
      word.data(), word.size(), word.data() + word.size());
}

void put(ShortWords& table, std::uint32_t number) {
  const auto key = key_of(word_of(number));
  table.put(key, ShortWords::hash_of(key), &number, 1);
}

// Returns whether the table has the right id for the word.
bool has(const ShortWords& table, std::uint32_t number) {
  const auto key = key_of(word_of(number));
  const auto* slot = table.find(key, ShortWords::hash_of(key));
  return slot != nullptr && slot->count == 1 && slot->ids[0] == number;
}

std::uint32_t count_found(const ShortWords& table, std::uint32_t words) {
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < words; ++i) {
    found += has(table, i) ? 1 : 0;
  }
  return found;
}

// The hash is random, so a few words may replace others. With places in one
// pair of slots only, about 140 of these words are lost.
TEST(WordCache, KeepsTheWordsOfATableThatIsOneThirdFull) {
  ShortWords table(kSlots);
  constexpr std::uint32_t kWords = kSlots / 3;
  for (std::uint32_t i = 0; i < kWords; ++i) {
    put(table, i);
  }

  EXPECT_GT(count_found(table, kWords), kWords - 40);
}

TEST(WordCache, FindsNewWordsInAFullTable) {
  ShortWords table(kSlots);
  for (std::uint32_t i = 0; i < 4 * kSlots; ++i) {
    put(table, i);
    ASSERT_TRUE(has(table, i)) << i;
  }
}

}  // namespace
}  // namespace transformers::tokenizers
