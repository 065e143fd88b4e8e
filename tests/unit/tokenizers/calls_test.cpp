// SPDX-License-Identifier: Apache-2.0
// Truncation, padding, pairs and folders, compared with the results of Hugging
// Face Transformers (tests/parity/make_tokenizer_calls.py).
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/json.h"
#include "support/temporary_directory.h"
#include "transformers/tokenizer.h"

namespace transformers {
namespace {

using accelerate::Json;

const std::filesystem::path kCallsFolder =
    std::filesystem::path(ACCELERATE_GOLDEN) / "tokenizers";

const Json& golden_calls() {
  static const Json golden =
      Json::parse(accelerate::read_file(kCallsFolder / "calls.json", 1 << 24));
  return golden;
}

std::vector<std::string> to_strings(const Json& json) {
  std::vector<std::string> values;
  for (const Json& value : json.as_array()) {
    values.push_back(value.as_string());
  }
  return values;
}

template <typename Strategy>
Strategy strategy_of(const Json& json) {
  return json.is_bool() ? Strategy(json.as_bool())
                        : Strategy(json.as_string().c_str());
}

TokenizerCallOptions options_of(const Json& json) {
  TokenizerCallOptions options;
  options.return_special_tokens_mask = true;
  options.return_offsets_mapping = true;
  for (const accelerate::JsonMember& member : json.as_object()) {
    const Json& value = member.value;
    if (member.key == "add_special_tokens") {
      options.add_special_tokens = value.as_bool();
    } else if (member.key == "padding") {
      options.padding = strategy_of<PaddingStrategy>(value);
    } else if (member.key == "truncation") {
      options.truncation = strategy_of<TruncationStrategy>(value);
    } else if (member.key == "max_length") {
      options.max_length = value.as_integer();
    } else if (member.key == "stride") {
      options.stride = value.as_integer();
    } else if (member.key == "pad_to_multiple_of") {
      options.pad_to_multiple_of = value.as_integer();
    } else if (member.key == "padding_side") {
      options.padding_side = Side::left;
    } else if (member.key == "return_overflowing_tokens") {
      options.return_overflowing_tokens = value.as_bool();
    } else {
      ADD_FAILURE() << member.key;
    }
  }
  return options;
}

Json offsets_json(const std::vector<Offsets>& offsets) {
  Json rows = Json::array();
  for (const auto& [begin, end] : offsets) {
    rows.push_back(Json::array({begin, end}));
  }
  return rows;
}

template <typename Get>
void compare_rows(
    const BatchEncoding& batch, const Json& golden, const char* key, Get get) {
  const Json* expected = golden.find(key);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Json row(get(batch[i]));
    EXPECT_EQ(row.dump(), (expected ? expected->at(i) : Json::array()).dump())
        << key << " " << i;
  }
}

void compare_batch(const BatchEncoding& batch, const Json& golden) {
  ASSERT_FALSE(golden.contains("error")) << golden.dump();
  ASSERT_EQ(batch.size(), golden.at("input_ids").size());
  compare_rows(batch, golden, "input_ids", [](auto& r) { return r.input_ids; });
  compare_rows(batch, golden, "token_type_ids", [](auto& r) {
    return r.token_type_ids;
  });
  compare_rows(batch, golden, "attention_mask", [](auto& r) {
    return r.attention_mask;
  });
  compare_rows(batch, golden, "special_tokens_mask", [](auto& r) {
    return r.special_tokens_mask;
  });
  compare_rows(batch, golden, "offset_mapping", [](auto& r) {
    return offsets_json(r.offset_mapping);
  });
  if (const Json* map = golden.find("overflow_to_sample_mapping")) {
    EXPECT_EQ(Json(batch.overflow_to_sample_mapping), *map);
  }
}

class TokenizerCalls : public testing::TestWithParam<const char*> {
 protected:
  std::string name_ = GetParam();
  Tokenizer tokenizer_ = AutoTokenizer::from_pretrained(
      (kCallsFolder / "folders" / name_).string(),
      name_ == "vocab_json" ? TokenizerOptions{.add_prefix_space = true}
                            : TokenizerOptions{});
  const Json& golden_ = golden_calls().at("folders").at(name_);
};

TEST_P(TokenizerCalls, ReturnsTheRowsOfPython) {
  const auto texts = to_strings(golden_calls().at("texts"));
  const auto pairs = to_strings(golden_calls().at("pairs"));
  for (const Json& call : golden_.at("calls").as_array()) {
    SCOPED_TRACE(call.at("options").dump() + call.at("pairs").dump());
    const TokenizerCallOptions options = options_of(call.at("options"));
    const auto encode = [&] {
      return call.at("pairs").as_bool() ? tokenizer_(texts, pairs, options)
                                        : tokenizer_(texts, options);
    };
    if (call.at("result").contains("error")) {
      EXPECT_THROW((void)encode(), accelerate::ArgumentError)
          << call.at("result").dump();
    } else {
      compare_batch(encode(), call.at("result"));
    }
  }
}

TEST_P(TokenizerCalls, EncodesTextsSplitIntoWords) {
  const Json& golden = golden_.at("words");
  std::vector<std::vector<std::string>> texts;
  for (const Json& text : golden.at("texts").as_array()) {
    texts.push_back(to_strings(text));
  }

  const BatchEncoding batch = tokenizer_.encode_words(
      texts,
      {.padding = true,
       .return_offsets_mapping = true,
       .return_word_ids = true});

  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(Json(batch[i].input_ids), golden.at("input_ids").at(i));
    EXPECT_EQ(
        offsets_json(batch[i].offset_mapping),
        golden.at("offset_mapping").at(i));
    Json words = Json::array();
    for (const auto& word : batch[i].word_ids) {
      words.push_back(word.value_or(-1));
    }
    EXPECT_EQ(words, golden.at("words").at(i));
  }
}

TEST_P(TokenizerCalls, HasTheSpecialTokensAndSizeOfPython) {
  for (const accelerate::JsonMember& member :
       golden_.at("special").as_object()) {
    const auto token = tokenizer_.special_token(member.key);
    EXPECT_EQ(token ? Json(*token) : Json(), member.value) << member.key;
  }
  EXPECT_EQ(Json(tokenizer_.all_special_ids()), golden_.at("special_ids"));
  EXPECT_EQ(tokenizer_.size(), golden_.at("size").as_integer());
  EXPECT_EQ(
      Json(tokenizer_.model_input_names()), golden_.at("model_input_names"));
}

TEST_P(TokenizerCalls, DecodesText) {
  const auto ids =
      tokenizer_(golden_calls().at("texts").at(std::size_t{0}).as_string())
          .input_ids;

  EXPECT_EQ(tokenizer_.decode(ids), golden_.at("decoded").as_string());
  EXPECT_EQ(
      tokenizer_.decode(
          ids,
          {.skip_special_tokens = true, .clean_up_tokenization_spaces = true}),
      golden_.at("cleaned").as_string());
}

TEST_P(TokenizerCalls, LoadsWhatItSaved) {
  const std::filesystem::path folder = accelerate::fresh_folder();
  const auto texts = to_strings(golden_calls().at("texts"));
  const TokenizerCallOptions options{.return_offsets_mapping = true};

  tokenizer_.save_pretrained(folder);
  const Tokenizer reloaded = AutoTokenizer::from_pretrained(folder.string());

  EXPECT_EQ(reloaded(texts, options).rows, tokenizer_(texts, options).rows);
  EXPECT_EQ(reloaded.size(), tokenizer_.size());
  EXPECT_EQ(reloaded.all_special_ids(), tokenizer_.all_special_ids());
  std::filesystem::remove_all(folder);
}

TEST_P(TokenizerCalls, PaddingLaterGivesTheSameRows) {
  const auto texts = to_strings(golden_calls().at("texts"));
  std::vector<Encoding> rows;
  for (const std::string& text : texts) {
    rows.push_back(tokenizer_(text));
  }

  const BatchEncoding padded =
      tokenizer_.pad(std::move(rows), {.pad_to_multiple_of = 4});

  EXPECT_EQ(
      padded.rows,
      tokenizer_(texts, {.padding = true, .pad_to_multiple_of = 4}).rows);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TokenizerCalls,
    testing::Values(
        "bert", "gpt2_files", "llama", "roberta", "vocab_json", "vocab_txt"),
    [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace transformers
