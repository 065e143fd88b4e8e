// SPDX-License-Identifier: Apache-2.0
// Files that are no tokenizers, and calls that cannot work: what is said.
#include <chrono>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "support/message_of.h"
#include "transformers/tokenizer.h"
#include "transformers/tokenizers/pipeline.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::FormatError;
using accelerate::message_of;
using testing::HasSubstr;

struct BadFile {
  const char* name;
  const char* text;
  const char* says;
};

class BadTokenizerFile : public testing::TestWithParam<BadFile> {};

TEST_P(BadTokenizerFile, IsNamedWithItsPath) {
  const std::string text = GetParam().text;

  EXPECT_THAT(
      message_of<FormatError>(
          [&] { (void)tokenizers::read_pipeline(text, "t.json"); }),
      HasSubstr(GetParam().says));
}

#define WORDS R"("vocab":{"a":0,"b":1,"ab":2})"

INSTANTIATE_TEST_SUITE_P(
    All,
    BadTokenizerFile,
    testing::Values(
        BadFile{"Empty", "", "t.json:1:1: $: the text ends here"},
        BadFile{"NoObject", "[1]", "t.json:1:1: $: expected `{`"},
        BadFile{"NoModel", "{}", "t.json: $: the key `model` is missing"},
        BadFile{
            "CutShort",
            R"({"model":{"type":"BPE","vocab":{"a":0)",
            "$.model: the text ends here"},
        BadFile{
            "Trailing",
            R"({"model":{"type":"WordLevel"}} x)",
            "t.json:1:32: $: expected the end of the text"},
        BadFile{
            "TwoModels",
            R"({"model":{},"model":{}})",
            "the key `model` appears twice"},
        BadFile{
            "TwoVocabularies",
            R"({"model":{"vocab":{},"vocab":{}}})",
            "$.model: the key `vocab` appears twice"},
        BadFile{
            "NoVocabulary",
            R"({"model":{"type":"WordPiece"}})",
            "$.model: the key `vocab` is missing"},
        BadFile{
            "UnknownModel",
            R"({"model":{"type":"Magic",)" WORDS "}}",
            "$.model.type: `Magic` is no model this library knows"},
        BadFile{
            "IdIsText",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":"x"}}})",
            "$.model.vocab: expected an integer"},
        BadFile{
            "IdTooLarge",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":99999999999}}})",
            "the id 99999999999 of `a` is not within 0–16777214"},
        BadFile{
            "IdNegative",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":-1}}})",
            "the id -1 of `a`"},
        BadFile{
            "TokenTwice",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0,"a":1}}})",
            "the token `a` comes twice"},
        BadFile{
            "NotUtf8",
            "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"\xFF\":0}}}",
            "$.model.vocab: a string is not UTF-8"},
        BadFile{
            "HalfSurrogate",
            R"({"model":{"type":"WordLevel","vocab":{"\ud800":0}}})",
            "half of a surrogate pair"},
        BadFile{
            "NoUnknown",
            R"({"model":{"type":"WordPiece",)" WORDS "}}",
            "the vocabulary lacks `unk_token`, which is `[UNK]`"},
        BadFile{
            "NoMerges",
            R"({"model":{"type":"BPE",)" WORDS "}}",
            "$.model: the key `merges` is missing"},
        BadFile{
            "MergeOfOne",
            R"({"model":{"type":"BPE",)" WORDS R"(,"merges":["a b","ab"]}})",
            "$.model.merges[1]: expected two tokens with a space between"},
        BadFile{
            "MergeOfThree",
            R"({"model":{"type":"BPE",)" WORDS R"(,"merges":[["a","b","a"]]}})",
            "$.model.merges[0]: expected two tokens, found 3"},
        BadFile{
            "MergeUnknown",
            R"({"model":{"type":"BPE",)" WORDS R"(,"merges":["a c"]}})",
            "$.model.merges[0]: the vocabulary lacks `ac`"},
        BadFile{
            "Dropout",
            R"({"model":{"type":"BPE","dropout":0.1,)" WORDS
            R"(,"merges":[]}})",
            "$.model.dropout"},
        BadFile{
            "UnigramId",
            R"({"model":{"type":"Unigram","unk_id":3,"vocab":[["a",-1.0]]}})",
            "$.model.unk_id: 3 is no id of a vocabulary of 1"},
        BadFile{
            "UnigramScore",
            R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}})",
            "$.model.vocab: expected a token and its score"},
        BadFile{
            "UnknownNormalizer",
            R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"NFX"}]},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.normalizer.normalizers[0].type: `NFX` is no normalizer"},
        BadFile{
            "NormalizerWithoutType",
            R"({"normalizer":{},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.normalizer: the key `type` is missing"},
        BadFile{
            "FlagIsText",
            R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":"no"},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.pre_tokenizer.add_prefix_space: expected a boolean"},
        BadFile{
            "BadExpression",
            R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.pre_tokenizer.pattern.Regex: the expression `(a` cannot be"},
        BadFile{
            "BadBehavior",
            R"({"pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"Gone","invert":false},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.pre_tokenizer.behavior: `Gone` is no behavior of a split"},
        BadFile{
            "TemplateToken",
            R"({"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"X","type_id":0}}],"pair":[],"special_tokens":{}},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.post_processor.single[0].SpecialToken.id: `X` is not in"},
        BadFile{
            "AddedTokenEmpty",
            R"({"added_tokens":[{"content":""}],"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.added_tokens[0].content: an added token cannot be empty"},
        BadFile{
            "UnknownDecoder",
            R"({"decoder":{"type":"Magic"},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.decoder.type: `Magic` is no decoder"},
        BadFile{
            "PrecompiledCut",
            R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="},"model":{"type":"BPE",)" WORDS
            R"(,"merges":[]}})",
            "$.normalizer.precompiled_charsmap: the table of replacements is"}),
    [](const auto& test) { return std::string(test.param.name); });

#undef WORDS

// Merges are looked up many at a time; each still has its own place.
TEST(BadTokenizerFile, AMergeFarDownIsNamedWithItsPlace) {
  std::string text = "{\"model\":{\"type\":\"BPE\",\"vocab\":{";
  for (int i = 0; i < 400; ++i) {
    text += "\"" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  }
  text += "\"x\":400},\"merges\":[";
  for (int i = 0; i < 100; ++i) {
    text += (i == 0 ? "\n" : ",\n");
    text += i == 90 ? "\"x y\""
                    : "[\"1\",\"\\u0030" + std::to_string(i % 10) + "\"]";
  }
  text += "]}}";
  // 100 to 109 are tokens, 00 to 09 are not.
  EXPECT_THAT(
      message_of<FormatError>(
          [&] { (void)tokenizers::read_pipeline(text, "t.json"); }),
      HasSubstr("$.model.merges[0]: the vocabulary lacks `00`"));

  for (std::size_t at; (at = text.find("\\u0030")) != std::string::npos;) {
    text.replace(at, 6, "\\u0031");
  }

  EXPECT_THAT(
      message_of<FormatError>(
          [&] { (void)tokenizers::read_pipeline(text, "t.json"); }),
      HasSubstr("t.json:92:6: $.model.merges[90]: the vocabulary lacks `xy`"));
}

TEST(BadTokenizerFile, DeepNestingIsRefused) {
  const std::string deep(100000, '[');
  EXPECT_THROW(
      (void)tokenizers::read_pipeline("{\"a\":" + deep + "}", "t.json"),
      FormatError);
}

const std::string kFolders =
    std::string(ACCELERATE_GOLDEN) + "/tokenizers/folders/";

TEST(BadTokenizerFolder, SaysWhatIsMissing) {
  EXPECT_THAT(
      message_of<accelerate::IoError>(
          [] { (void)AutoTokenizer::from_pretrained(kFolders); }),
      HasSubstr("has no tokenizer.json, no vocab.txt"));
  EXPECT_THAT(
      message_of<accelerate::IoError>(
          [] { (void)AutoTokenizer::from_pretrained("/no/such"); }),
      HasSubstr("there is no folder /no/such"));
}

TEST(BadTokenizerCall, TextThatIsNotUtf8) {
  const auto tokenizer = AutoTokenizer::from_pretrained(kFolders + "bert");

  EXPECT_EQ(
      message_of<ArgumentError>([&] { (void)tokenizer("abc\xC3("); }),
      "the text to encode is not UTF-8: byte 3 of 5 is 0xc3");
}

TEST(BadTokenizerCall, OptionsThatContradict) {
  const auto tokenizer = AutoTokenizer::from_pretrained(kFolders + "bert");
  const auto message = [&](const TokenizerCallOptions& options) {
    return message_of<ArgumentError>([&] { (void)tokenizer("a b", options); });
  };

  EXPECT_EQ(message({.max_length = 0}), "max_length is 0");
  EXPECT_EQ(
      message({.truncation = true, .max_length = 1}),
      "max_length is 1, and the special tokens alone are 2");
  EXPECT_EQ(
      message(
          {.padding = true,
           .truncation = true,
           .max_length = 10,
           .pad_to_multiple_of = 8}),
      "max_length is 10, not a multiple of pad_to_multiple_of, which is 8");
  EXPECT_EQ(
      message_of<ArgumentError>([] { (void)PaddingStrategy("longets"); }),
      "padding `longets` is not one of do_not_pad, longest, max_length");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        (void)tokenizer(
            std::vector<std::string>{"a"}, std::vector<std::string>{});
      }),
      "there are 1 texts and 0 second texts");
}

TEST(BadTokenizerCall, PaddingWithoutAToken) {
  const auto tokenizer = AutoTokenizer::from_pretrained(
      std::string(ACCELERATE_GOLDEN) + "/tokenizers/gpt2.json");

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { (void)tokenizer("a", {.padding = true}); }),
      "padding is asked for, and the tokenizer has no padding token");
}

}  // namespace
}  // namespace transformers
