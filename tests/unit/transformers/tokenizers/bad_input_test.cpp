// SPDX-License-Identifier: Apache-2.0
// Error messages for malformed tokenizer files and invalid calls.
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
  const char* message;
};

class BadTokenizerFile : public testing::TestWithParam<BadFile> {};

TEST_P(BadTokenizerFile, IsReportedWithItsPath) {
  const std::string text = GetParam().text;

  EXPECT_THAT(
      message_of<FormatError>(
          [&] { (void)tokenizers::read_pipeline(text, "t.json"); }),
      HasSubstr(GetParam().message));
}

#define VOCAB R"("vocab":{"a":0,"b":1,"ab":2})"

INSTANTIATE_TEST_SUITE_P(
    All,
    BadTokenizerFile,
    testing::Values(
        BadFile{"Empty", "", "t.json:1:1: $: unexpected end of the text"},
        BadFile{"NotAnObject", "[1]", "t.json:1:1: $: expected `{`"},
        BadFile{"NoModel", "{}", "t.json: $: the key `model` is missing"},
        BadFile{
            "Truncated",
            R"({"model":{"type":"BPE","vocab":{"a":0)",
            "$.model: unexpected end of the text"},
        BadFile{
            "Trailing",
            R"({"model":{"type":"WordLevel"}} x)",
            "t.json:1:32: $: expected the end of the text"},
        BadFile{
            "DuplicateModel",
            R"({"model":{},"model":{}})",
            "the key `model` appears twice"},
        BadFile{
            "DuplicateVocabulary",
            R"({"model":{"vocab":{},"vocab":{}}})",
            "$.model: the key `vocab` appears twice"},
        BadFile{
            "NoVocabulary",
            R"({"model":{"type":"WordPiece"}})",
            "$.model: the key `vocab` is missing"},
        BadFile{
            "UnknownModel",
            R"({"model":{"type":"Magic",)" VOCAB "}}",
            "$.model.type: `Magic` is not a supported model"},
        BadFile{
            "IdIsText",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":"x"}}})",
            "$.model.vocab: expected an integer"},
        BadFile{
            "IdTooLarge",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":99999999999}}})",
            "the id 99999999999 of `a` is not in the range 0–16777214"},
        BadFile{
            "IdNegative",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":-1}}})",
            "the id -1 of `a`"},
        BadFile{
            "DuplicateToken",
            R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0,"a":1}}})",
            "the token `a` appears twice"},
        BadFile{
            "NotUtf8",
            "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"\xFF\":0}}}",
            "$.model.vocab: a string is not UTF-8"},
        BadFile{
            "UnpairedSurrogate",
            R"({"model":{"type":"WordLevel","vocab":{"\ud800":0}}})",
            "unpaired surrogate"},
        BadFile{
            "NoUnknownToken",
            R"({"model":{"type":"WordPiece",)" VOCAB "}}",
            "the vocabulary lacks the `unk_token` `[UNK]`"},
        BadFile{
            "NoMerges",
            R"({"model":{"type":"BPE",)" VOCAB "}}",
            "$.model: the key `merges` is missing"},
        BadFile{
            "MergeOfOneToken",
            R"({"model":{"type":"BPE",)" VOCAB R"(,"merges":["a b","ab"]}})",
            "$.model.merges[1]: expected two tokens separated by a space"},
        BadFile{
            "MergeOfThreeTokens",
            R"({"model":{"type":"BPE",)" VOCAB R"(,"merges":[["a","b","a"]]}})",
            "$.model.merges[0]: expected two tokens, found 3"},
        BadFile{
            "MergeOfUnknownToken",
            R"({"model":{"type":"BPE",)" VOCAB R"(,"merges":["a c"]}})",
            "$.model.merges[0]: the vocabulary lacks `ac`"},
        BadFile{
            "Dropout",
            R"({"model":{"type":"BPE","dropout":0.1,)" VOCAB
            R"(,"merges":[]}})",
            "$.model.dropout"},
        BadFile{
            "UnigramId",
            R"({"model":{"type":"Unigram","unk_id":3,"vocab":[["a",-1.0]]}})",
            "$.model.unk_id: the id 3 is not in the vocabulary, whose size is "
            "1"},
        BadFile{
            "UnigramScore",
            R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}})",
            "$.model.vocab: expected a token and its score"},
        BadFile{
            "UnknownNormalizer",
            R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"NFX"}]},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.normalizer.normalizers[0].type: `NFX` is not a supported "
            "normalizer"},
        BadFile{
            "NormalizerWithoutType",
            R"({"normalizer":{},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.normalizer: the key `type` is missing"},
        BadFile{
            "FlagIsText",
            R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":"no"},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.pre_tokenizer.add_prefix_space: expected a boolean"},
        BadFile{
            "BadExpression",
            R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.pre_tokenizer.pattern.Regex: cannot compile the regular "
            "expression "
            "`(a`: "},
        BadFile{
            "BadBehavior",
            R"({"pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"Deleted","invert":false},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.pre_tokenizer.behavior: `Deleted` is not a supported split "
            "behavior"},
        BadFile{
            "TemplateToken",
            R"({"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"X","type_id":0}}],"pair":[],"special_tokens":{}},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.post_processor.single[0].SpecialToken.id: `X` is not in"},
        BadFile{
            "AddedTokenEmpty",
            R"({"added_tokens":[{"content":""}],"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.added_tokens[0].content: an added token cannot be empty"},
        BadFile{
            "UnknownDecoder",
            R"({"decoder":{"type":"Magic"},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.decoder.type: `Magic` is not a supported decoder"},
        BadFile{
            "PrecompiledTruncated",
            R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.normalizer.precompiled_charsmap: the charsmap is truncated"}),
    [](const auto& test) { return std::string(test.param.name); });

#undef VOCAB

// Merges are looked up in batches; errors still report the right position.
TEST(BadTokenizerFile, ReportsThePositionOfALaterMerge) {
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

TEST(BadTokenizerFile, RejectsDeepNesting) {
  const std::string deep(100000, '[');
  EXPECT_THROW(
      (void)tokenizers::read_pipeline("{\"a\":" + deep + "}", "t.json"),
      FormatError);
}

const std::string kFolders =
    std::string(ACCELERATE_GOLDEN) + "/tokenizers/folders/";

TEST(BadTokenizerFolder, ReportsTheMissingFiles) {
  EXPECT_THAT(
      message_of<accelerate::IoError>(
          [] { (void)AutoTokenizer::from_pretrained(kFolders); }),
      HasSubstr("contains neither tokenizer.json, nor vocab.txt"));
  EXPECT_THAT(
      message_of<accelerate::IoError>(
          [] { (void)AutoTokenizer::from_pretrained("/no/such"); }),
      HasSubstr("there is no folder /no/such"));
}

TEST(BadTokenizerCall, RejectsTextThatIsNotUtf8) {
  const auto tokenizer = AutoTokenizer::from_pretrained(kFolders + "bert");

  EXPECT_EQ(
      message_of<ArgumentError>([&] { (void)tokenizer("abc\xC3("); }),
      "the text to encode is not UTF-8: byte 3 of 5 is 0xc3");
}

TEST(BadTokenizerCall, RejectsContradictoryOptions) {
  const auto tokenizer = AutoTokenizer::from_pretrained(kFolders + "bert");
  const auto message = [&](const TokenizerCallOptions& options) {
    return message_of<ArgumentError>([&] { (void)tokenizer("a b", options); });
  };

  EXPECT_EQ(message({.max_length = 0}), "max_length is 0");
  EXPECT_EQ(
      message({.truncation = true, .max_length = 1}),
      "max_length is 1, but the special tokens alone need 2");
  EXPECT_EQ(
      message(
          {.padding = true,
           .truncation = true,
           .max_length = 10,
           .pad_to_multiple_of = 8}),
      "max_length is 10, which is not a multiple of pad_to_multiple_of (8)");
  EXPECT_EQ(
      message_of<ArgumentError>([] { (void)PaddingStrategy("longets"); }),
      "padding `longets` is not one of do_not_pad, longest, max_length");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        (void)tokenizer(
            std::vector<std::string>{"a"}, std::vector<std::string>{});
      }),
      "the size of `texts` is 1, but the size of `text_pairs` is 0");
}

TEST(BadTokenizerCall, RejectsPaddingWithoutAPaddingToken) {
  const auto tokenizer = AutoTokenizer::from_pretrained(
      std::string(ACCELERATE_GOLDEN) + "/tokenizers/gpt2.json");

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { (void)tokenizer("a", {.padding = true}); }),
      "padding is requested, but the tokenizer has no padding token");
}

}  // namespace
}  // namespace transformers
