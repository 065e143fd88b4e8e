// SPDX-License-Identifier: Apache-2.0
// The lookup tables of a tokenizer: tokens by text and id, merges by pair.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tokenizers/models/merge_table.h"
#include "tokenizers/models/vocabulary.h"

namespace transformers::tokenizers {
namespace {

TEST(Vocabulary, FindsTokensByTextAndById) {
  Vocabulary vocabulary;
  for (std::uint32_t id = 0; id < 5000; ++id) {
    ASSERT_TRUE(vocabulary.add("token" + std::to_string(id), id));
  }

  for (std::uint32_t id = 0; id < 5000; ++id) {
    const std::string token = "token" + std::to_string(id);
    ASSERT_EQ(vocabulary.find(token), id);
    ASSERT_EQ(vocabulary.text(id), token);
  }
  EXPECT_EQ(vocabulary.find("token5000"), std::nullopt);
  EXPECT_EQ(vocabulary.find(""), std::nullopt);
  EXPECT_EQ(vocabulary.text(5000), std::nullopt);
  EXPECT_EQ(vocabulary.limit(), 5000U);
}

TEST(Vocabulary, FindAllEqualsFindOfEachToken) {
  Vocabulary vocabulary;
  std::vector<std::string> texts = {"", "absent"};
  for (std::uint32_t id = 0; id < 1000; ++id) {
    texts.push_back("token" + std::to_string(id * 7 % 1300));
    vocabulary.add("token" + std::to_string(id), id);
  }
  const std::vector<std::string_view> tokens(texts.begin(), texts.end());
  std::vector<std::optional<std::uint32_t>> ids(tokens.size(), 1);

  vocabulary.find_all(tokens, ids);

  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(ids[i], vocabulary.find(tokens[i])) << tokens[i];
  }
  EXPECT_EQ(ids[0], std::nullopt);
  EXPECT_EQ(ids[2], 0U);
  Vocabulary().find_all(tokens, ids);
  EXPECT_EQ(ids[2], std::nullopt);
}

TEST(Vocabulary, AcceptsIdsInAnyOrderAndWithGaps) {
  Vocabulary vocabulary;
  vocabulary.reserve(4, 16);
  vocabulary.add("a", 0);
  vocabulary.add("b", 1);
  vocabulary.add("far", 9);
  vocabulary.add("c", 2);

  EXPECT_EQ(vocabulary.text(0), "a");
  EXPECT_EQ(vocabulary.text(1), "b");
  EXPECT_EQ(vocabulary.text(2), "c");
  EXPECT_EQ(vocabulary.text(3), std::nullopt);
  EXPECT_EQ(vocabulary.text(9), "far");
  EXPECT_EQ(vocabulary.find("c"), 2U);
  EXPECT_EQ(vocabulary.limit(), 10U);
  EXPECT_EQ(vocabulary.size(), 4U);
}

TEST(Vocabulary, RejectsADuplicateToken) {
  Vocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add("", 0));
  ASSERT_TRUE(vocabulary.add("a", 1));

  EXPECT_FALSE(vocabulary.add("a", 2));
  EXPECT_FALSE(vocabulary.add("", 2));
  EXPECT_EQ(vocabulary.find("a"), 1U);
  EXPECT_EQ(vocabulary.size(), 2U);
}

TEST(MergeTable, FindsEachPairAfterGrowing) {
  constexpr std::uint32_t kLargest = (1 << 24) - 1;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Merge> expected;
  MergeTable table(10);
  for (std::uint32_t rank = 0; rank < 3000; ++rank) {
    const std::uint32_t left = kLargest - rank * 7 % 61;
    const std::uint32_t right = rank * 977 % 5003;
    const Merge merge{MergeTable::kMaxRank - rank, kLargest - rank};
    expected[{left, right}] = merge;
    table.set(left, right, merge);
  }

  std::size_t count = 0;
  table.for_each([&](std::uint32_t left, std::uint32_t right, Merge merge) {
    const Merge& expected_merge = expected.at({left, right});
    EXPECT_EQ(merge.rank, expected_merge.rank);
    EXPECT_EQ(merge.id, expected_merge.id);
    ++count;
  });
  EXPECT_EQ(count, expected.size());
  for (const auto& [pair, merge] : expected) {
    ASSERT_EQ(table.find(pair.first, pair.second).rank, merge.rank);
  }
  EXPECT_FALSE(table.find(0, 1).exists());
  EXPECT_FALSE(MergeTable().find(kLargest, kLargest).exists());
}

}  // namespace
}  // namespace transformers::tokenizers
