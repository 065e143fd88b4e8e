// SPDX-License-Identifier: Apache-2.0
// Regular expressions in `Split` and `Replace`, compared with Hugging Face
// `tokenizers` (tests/parity/make_regex.py).
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/json.h"
#include "tokenizers/decoder.h"
#include "tokenizers/normalizers/normalizer.h"
#include "tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "tokenizers/pre_tokenizers/scanners.h"

// Declared here, because <oniguruma.h> and the <regex.h> that GoogleTest
// includes cannot be included together.
extern "C" const char* onig_version();

namespace transformers::tokenizers {
namespace {

using accelerate::FormatError;
using accelerate::Json;
using Strings = std::vector<std::string>;

const Json& regex_golden() {
  static const Json golden = Json::parse(accelerate::read_file(
      ACCELERATE_GOLDEN "/tokenizers/regex.json", 1 << 20));
  return golden;
}

Strings split_pieces(const PreTokenizer& stage, const std::string& text) {
  Pieces pieces;
  pieces.text.assign(text, 0, false);
  if (!text.empty()) {
    pieces.ranges.assign(1, {0, static_cast<std::uint32_t>(text.size())});
  }
  stage.split(pieces);
  Strings result;
  for (const Span& range : pieces.ranges) {
    result.emplace_back(pieces.view(range));
  }
  return result;
}

Strings split_pieces(const Json& stage, const std::string& text) {
  return split_pieces(*make_pre_tokenizer(JsonNode(stage, "test", "$")), text);
}

Json isolated(const std::string& expression) {
  return Json::object(
      {{"type", "Split"},
       {"pattern", Json::object({{"Regex", expression}})},
       {"behavior", "Isolated"},
       {"invert", false}});
}

std::string format_error(
    const std::string& expression, const std::string& text) {
  try {
    split_pieces(isolated(expression), text);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Regex, SplitsLikePython) {
  const auto& cases = regex_golden().at("split").as_array();
  ASSERT_GT(cases.size(), 300u);
  for (const Json& golden : cases) {
    SCOPED_TRACE(golden.dump());
    const Json stage = Json::object(
        {{"type", "Split"},
         {"pattern",
          Json::object(
              {{golden.at(std::size_t{0}).as_string(),
                golden.at(1).as_string()}})},
         {"behavior", golden.at(2).as_string()},
         {"invert", golden.at(3).as_bool()}});
    Strings expected;
    for (const Json& piece : golden.at(5).as_array()) {
      expected.push_back(piece.as_string());
    }

    EXPECT_EQ(split_pieces(stage, golden.at(4).as_string()), expected);
  }
}

TEST(Regex, ReplacesLikePython) {
  const auto& cases = regex_golden().at("replace").as_array();
  ASSERT_GT(cases.size(), 15u);
  for (const Json& golden : cases) {
    SCOPED_TRACE(golden.dump());
    const Json stage = Json::object(
        {{"type", "Replace"},
         {"pattern",
          Json::object(
              {{golden.at(std::size_t{0}).as_string(),
                golden.at(1).as_string()}})},
         {"content", golden.at(2).as_string()}});
    AlignedText text;
    text.assign(golden.at(3).as_string(), 0, true);
    Strings tokens{golden.at(3).as_string()};

    make_normalizer(JsonNode(stage, "test", "$"))->normalize(text);
    make_decoder(JsonNode(stage, "test", "$"))->decode(tokens);

    EXPECT_EQ(text.text, golden.at(4).as_string());
    EXPECT_EQ(text.spans.size(), text.text.size());
    EXPECT_EQ(tokens, Strings{golden.at(4).as_string()});
  }
}

// Random texts of the characters that the expressions distinguish.
std::string random_text(std::mt19937& random) {
  static const Strings kCharacters = {
      "a",      "B",      "s",      "T",      "l",      "é",      "ſ",
      "ß",      "中",     "あ",     "ー",     "゛",     "゠",     "\u3099",
      "龦",     "е",      "ǅ",      "ª",      "\u0301", "\u0903", "ह",
      "1",      "2",      "३",      "½",      "Ⅷ",      "'",      "'",
      "!",      "_",      "/",      "€",      "★",      "。",     "‘",
      " ",      " ",      " ",      "\n",     "\r",     "\t",     "\u00a0",
      "\u0085", "\u2028", "\u3000", "\u200d", "\u0378", "😀",     "\x01"};
  std::string text;
  for (std::size_t n = random() % 16; n > 0; --n) {
    text += kCharacters[random() % kCharacters.size()];
  }
  return text;
}

class RegexScanner : public testing::TestWithParam<std::string_view> {};

TEST_P(RegexScanner, SplitsLikeTheRegularExpression) {
  const std::string expression(GetParam());
  ASSERT_NE(isolating_scanner_for(expression), Scanner::none);
  const Json scanned = isolated(expression);
  // An expression in a group has no scanner.
  const Json grouped = isolated("(?:" + expression + ")");
  const auto scanner = make_pre_tokenizer(JsonNode(scanned, "test", "$"));
  const auto regex = make_pre_tokenizer(JsonNode(grouped, "test", "$"));
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random);
    ASSERT_EQ(split_pieces(*scanner, text), split_pieces(*regex, text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RegexScanner,
    testing::Values(
        kGpt2Expression,
        kLlama3Expression,
        kGpt4Expression,
        kQwen2Expression,
        kThreeDigitsExpression,
        kChineseJapaneseExpression,
        kDeepSeekExpression));

TEST(Regex, ManyThreadsMayUseOneExpression) {
  const Json stage = isolated(R"((?i:ab)|\w+?(?=x)|\p{L}+|\b)");
  const auto pre_tokenizer = make_pre_tokenizer(JsonNode(stage, "test", "$"));
  const std::string text = "AB cdx ef gh ABx ünïcode";
  const Strings expected = split_pieces(*pre_tokenizer, text);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        ASSERT_EQ(split_pieces(*pre_tokenizer, text), expected);
      }
    });
  }
}

TEST(Regex, NamesTheExpressionThatDoesNotCompile) {
  EXPECT_EQ(
      format_error("a(b", "x"),
      "test: $.pattern.Regex: cannot compile the regular expression `a(b`: end "
      "pattern with unmatched parenthesis");
  EXPECT_EQ(
      format_error(R"(\p{Script=Han})", "x"),
      "test: $.pattern.Regex: cannot compile the regular expression "
      R"(`\p{Script=Han}`: invalid character property name {Script=Han})");
  EXPECT_EQ(
      format_error(R"([\w-a])", "x"),
      "test: $.pattern.Regex: cannot compile the regular expression "
      R"(`[\w-a]`: unmatched range specifier in char-class)");
}

TEST(Regex, NamesTheExpressionThatNeedsTooManyRetries) {
  const std::string text = std::string(64, 'a') + "b!";

  EXPECT_EQ(
      format_error("(?:a|a?)+!", text),
      "cannot match the tokenizer's regular expression `(?:a|a?)+!` against a "
      "text of 66 bytes: retry-limit-in-match over");
}

TEST(Regex, RefusesWhatAnOlderOnigurumaDoesDifferently) {
  if (std::string(onig_version()) == "6.9.10") {
    EXPECT_EQ(format_error(R"(\X)", "x"), "no error");
    return;
  }
  for (const std::string feature :
       {R"(\X)", R"(\y)", "(?(", "(?~|", "(?I", "(?iL"}) {
    const std::string expression = feature.starts_with("(?(") ? "(a)(?(1)b|c)"
                                   : feature.starts_with("(?~|") ? "(?~|a)"
                                   : feature.starts_with('(') ? feature + ")a"
                                                              : feature;

    EXPECT_EQ(
        format_error(expression, "x"),
        "test: $.pattern.Regex: the regular expression `" + expression +
            "` uses `" + feature +
            "`, which needs Oniguruma 6.9.10 to give the same result as "
            "Python; this machine has version " +
            onig_version());
  }
}

}  // namespace
}  // namespace transformers::tokenizers
