// SPDX-License-Identifier: Apache-2.0
// Error messages for malformed tokenizer files and invalid calls.
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "support/message_of.h"
#include "tokenizers/pipeline.h"
#include "transformers/tokenizer.h"

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
            "the `unk_token` `[UNK]` is not in the vocabulary"},
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
            "$.model.merges[0]: this merge needs `ac`, which is not in the "
            "vocabulary"},
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
            "UnigramDuplicate",
            R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0],["a",1]]}})",
            "$.model.vocab: the token `a` appears twice"},
        BadFile{
            "Version",
            R"({"version":"2.0","model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.version: `2.0` is not a supported version"},
        BadFile{
            "VersionIsNumber",
            R"({"version":1.0,"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.version: expected a string"},
        BadFile{
            "TruncationStrategy",
            R"({"truncation":{"direction":"Right","max_length":5,"strategy":"Longest","stride":0},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.truncation.strategy: `Longest` is not a supported truncation "
            "strategy"},
        BadFile{
            "TruncationDirection",
            R"({"truncation":{"direction":"right","max_length":5,"strategy":"OnlyFirst","stride":0},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.truncation.direction: `right` is not a supported direction"},
        BadFile{
            "TruncationLength",
            R"({"truncation":{"max_length":-5,"strategy":"OnlyFirst","stride":0},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.truncation.max_length: expected 0 or more, found -5"},
        BadFile{
            "PaddingStrategy",
            R"({"padding":{"strategy":"Longest","direction":"Right","pad_id":0,"pad_type_id":0,"pad_token":"x"},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.padding.strategy: `Longest` is not a supported padding "
            "strategy"},
        BadFile{
            "WordLength",
            R"({"model":{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":-1,)" VOCAB
            "}}",
            "$.model.max_input_chars_per_word: expected 0 or more, found -1"},
        BadFile{
            "TextTwiceInTemplate",
            R"({"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{}},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.post_processor.single[1].Sequence.id: `A` appears twice in the "
            "template"},
        BadFile{
            "SecondTextInTemplate",
            R"({"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B","type_id":0}}],"pair":[],"special_tokens":{}},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.post_processor.single[0].Sequence.id: expected `A`"},
        BadFile{
            "TypeId",
            R"({"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":-1}}],"pair":[],"special_tokens":{}},"model":{"type":"BPE",)" VOCAB
            R"(,"merges":[]}})",
            "$.post_processor.single[0].Sequence.type_id: the type id -1 is "
            "not in the range 0–4294967295"},
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
      HasSubstr("$.model.merges[0]: this merge needs `00`, which is not in the "
                "vocabulary"));

  for (std::size_t at; (at = text.find("\\u0030")) != std::string::npos;) {
    text.replace(at, 6, "\\u0031");
  }

  EXPECT_THAT(
      message_of<FormatError>(
          [&] { (void)tokenizers::read_pipeline(text, "t.json"); }),
      HasSubstr("t.json:92:6: $.model.merges[90]: this merge needs `xy`, which "
                "is not in the vocabulary"));
}

TEST(BadTokenizerFile, RejectsDeepNesting) {
  const std::string deep(100000, '[');
  EXPECT_THROW(
      (void)tokenizers::read_pipeline("{\"a\":" + deep + "}", "t.json"),
      FormatError);
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) {
    result += i == 0 ? "" : ",";
    result += text;
  }
  return result;
}

// Without limits, these templates would need gigabytes.
TEST(BadTokenizerFile, LimitsTheSizeOfATemplate) {
  const std::string piece = R"({"SpecialToken":{"id":"x","type_id":0}})";
  const auto message = [&](int pieces, int ids) {
    const std::string text =
        R"({"post_processor":{"type":"TemplateProcessing","single":[)" +
        repeated(piece, pieces) +
        R"(],"pair":[],"special_tokens":{"x":{"id":"x","ids":[)" +
        repeated("0", ids) +
        R"(],"tokens":[]}}},"model":{"type":"WordLevel","unk_token":"a",)"
        R"("vocab":{"a":0}}})";
    return message_of<FormatError>(
        [&] { (void)tokenizers::read_pipeline(text, "t.json"); });
  };

  EXPECT_EQ(
      message(20'000, 1),
      "t.json: $.post_processor.single: the template has 20000 pieces; at most "
      "1024 are supported");
  EXPECT_EQ(
      message(1'000, 20'000),
      "t.json: $.post_processor.single: the template inserts more than 65536 "
      "special tokens");
}

const std::string kFolders =
    std::string(ACCELERATE_GOLDEN) + "/tokenizers/folders/";

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
      "padding is `longets`, but must be one of do_not_pad, longest, "
      "max_length");
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
