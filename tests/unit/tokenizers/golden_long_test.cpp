// SPDX-License-Identifier: Apache-2.0
// Texts of 1 MB without a space: digests of ids and offsets, compared with the
// digests from Hugging Face `tokenizers` (tests/parity/make_long_texts.py).
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/hmac.h"
#include "base/json.h"
#include "transformers/tokenizer.h"

namespace transformers {
namespace {

using accelerate::Json;

constexpr std::size_t kLongSize = 1 << 20;
const std::string kLongFiles = std::string(ACCELERATE_GOLDEN) + "/tokenizers/";

std::string repeat_to_long_size(std::string_view part) {
  std::string text;
  while (text.size() < kLongSize) {
    text += part;
  }
  return text;
}

// Pseudo-random letters, the same as in make_long_texts.py.
std::string letters() {
  std::string text;
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < kLongSize; ++i) {
    state = (state * 1103515245 + 12345) % (std::uint64_t{1} << 31);
    text += static_cast<char>('a' + (state >> 16) % 26);
  }
  return text;
}

std::string digest(const std::vector<std::int64_t>& numbers) {
  return accelerate::sha256_hex(
      {reinterpret_cast<const char*>(numbers.data()),
       numbers.size() * sizeof(std::int64_t)});
}

class LongGolden : public testing::TestWithParam<const char*> {
 protected:
  Tokenizer tokenizer_ =
      AutoTokenizer::from_pretrained(kLongFiles + GetParam() + ".json");
  Json golden_ =
      Json::parse(accelerate::read_file(kLongFiles + "long.json", 1 << 24));

  void compare(const char* label, const std::string& text) {
    SCOPED_TRACE(label);
    const Json& golden = golden_.at(GetParam()).at(label);
    const Encoding encoding =
        tokenizer_(text, {.return_offsets_mapping = true});
    std::vector<std::int64_t> offsets;
    for (const auto& [begin, end] : encoding.offset_mapping) {
      offsets.push_back(begin);
      offsets.push_back(end);
    }

    EXPECT_EQ(
        encoding.size(),
        static_cast<std::size_t>(golden.at("size").as_integer()));
    EXPECT_EQ(digest(encoding.input_ids), golden.at("ids").as_string());
    EXPECT_EQ(digest(offsets), golden.at("offsets").as_string());
    EXPECT_TRUE(tokenizer_(text).input_ids == encoding.input_ids);
  }
};

TEST_P(LongGolden, MatchesPythonOnOneMegabyte) {
  compare("one letter", repeat_to_long_size("a"));
  compare("one ideograph", repeat_to_long_size("中"));
  compare("letters", letters());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    LongGolden,
    testing::Values(
        "added_tokens",
        "bert",
        "gpt2",
        "llama2_new",
        "llama3",
        "plain_bpe",
        "precompiled",
        "qwen2",
        "roberta",
        "unigram",
        "word_level"),
    [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace transformers
