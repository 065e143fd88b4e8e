// SPDX-License-Identifier: Apache-2.0
// Ids, offsets, words and decoded text, compared with the results of Hugging
// Face `tokenizers` for the same texts (tests/parity/make_tokenizers.py).
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"
#include "transformers/tokenizer.h"

namespace transformers {
namespace {

using accelerate::Json;

const std::filesystem::path kGolden =
    std::filesystem::path(ACCELERATE_GOLDEN) / "tokenizers";

Json read_golden(const std::string& name) {
  return Json::parse(accelerate::read_file(kGolden / name, 1 << 24));
}

std::vector<std::int64_t> numbers(const Json& json) {
  std::vector<std::int64_t> values;
  for (const Json& value : json.as_array()) {
    values.push_back(value.as_integer());
  }
  return values;
}

std::vector<std::int64_t> flat(const std::vector<Offsets>& offsets) {
  std::vector<std::int64_t> values;
  for (const auto& [begin, end] : offsets) {
    values.push_back(begin);
    values.push_back(end);
  }
  return values;
}

std::vector<std::int64_t> word_numbers(const Encoding& encoding) {
  std::vector<std::int64_t> values;
  for (const auto& word : encoding.word_ids) {
    values.push_back(word.value_or(-1));
  }
  return values;
}

const TokenizerCallOptions kIdsOnly{};
const TokenizerCallOptions kWithOffsets{
    .return_token_type_ids = true,
    .return_offsets_mapping = true,
    .return_word_ids = true};

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  std::string name_ = GetParam();
  Tokenizer tokenizer_ =
      AutoTokenizer::from_pretrained((kGolden / (name_ + ".json")).string());
  Json texts_ = read_golden("texts.json");
  Json golden_ = read_golden(name_ + ".golden.json");

  // Returns the text of entry `i` of the golden file.
  const std::string& text_of(std::size_t i) const {
    const auto index =
        static_cast<std::size_t>(golden_.at("which").at(i).as_integer());
    return texts_.at("texts").at(index).as_string();
  }
  void compare(const Encoding& encoding, const Json& golden) {
    EXPECT_EQ(encoding.input_ids, numbers(golden.at("ids")));
    EXPECT_EQ(flat(encoding.offset_mapping), numbers(golden.at("offsets")));
    EXPECT_EQ(word_numbers(encoding), numbers(golden.at("words")));
    std::vector<std::int64_t> types = numbers(golden.at("types"));
    types.resize(encoding.size(), 0);
    EXPECT_EQ(encoding.token_type_ids, types);
  }
};

TEST_P(TokenizerGolden, EncodesTexts) {
  for (std::size_t i = 0; i < golden_.at("texts").size(); ++i) {
    const std::string& text = text_of(i);
    SCOPED_TRACE(Json(text).dump({.ensure_ascii = true}));

    compare(tokenizer_(text, kWithOffsets), golden_.at("texts").at(i));
  }
}

TEST_P(TokenizerGolden, FastPathGivesTheSameIds) {
  for (std::size_t i = 0; i < golden_.at("texts").size(); ++i) {
    const std::string& text = text_of(i);
    SCOPED_TRACE(Json(text).dump({.ensure_ascii = true}));
    const auto expected = numbers(golden_.at("texts").at(i).at("ids"));

    EXPECT_EQ(tokenizer_(text, kIdsOnly).input_ids, expected);
    // The second call uses cached words.
    EXPECT_EQ(tokenizer_(text, kIdsOnly).input_ids, expected);
  }
}

TEST_P(TokenizerGolden, EncodesPairs) {
  for (std::size_t i = 0; i < golden_.at("pairs").size(); ++i) {
    const Json& pair = texts_.at("pairs").at(i);
    SCOPED_TRACE(pair.dump({.ensure_ascii = true}));

    const Encoding encoding = tokenizer_(
        pair.at(std::size_t{0}).as_string(),
        pair.at(std::size_t{1}).as_string(),
        kWithOffsets);

    compare(encoding, golden_.at("pairs").at(i));
  }
}

TEST_P(TokenizerGolden, DecodesText) {
  for (const Json& golden : golden_.at("texts").as_array()) {
    const auto ids = numbers(golden.at("ids"));

    EXPECT_EQ(tokenizer_.decode(ids), golden.at("text").as_string());
    EXPECT_EQ(
        tokenizer_.decode(ids, {.skip_special_tokens = true}),
        golden.at(golden.contains("plain") ? "plain" : "text").as_string());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TokenizerGolden,
    testing::Values(
        "added_tokens",
        "bert",
        "bert_cased",
        "byte_normalizer",
        "empty_matches",
        "gpt2",
        "gpt2_prefixed",
        "llama2_new",
        "llama2_old",
        "llama3",
        "no_unknown_bpe",
        "plain_bpe",
        "precompiled",
        "qwen2",
        "roberta",
        "roberta_prefixed",
        "split_contiguous",
        "split_isolated",
        "split_next",
        "split_previous",
        "split_removed",
        "unigram",
        "unigram_bytes",
        "word_level"),
    [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace transformers
