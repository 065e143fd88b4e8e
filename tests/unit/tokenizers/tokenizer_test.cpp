// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizer.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace transformers {
namespace {

std::string golden_path(const std::string& name) {
  return std::string(ACCELERATE_GOLDEN) + "/tokenizers/" + name;
}

std::vector<std::string> many_texts() {
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    texts.push_back(
        "text number " + std::to_string(i) + " of MANY, größer " +
        std::string(static_cast<std::size_t>(i), 'x'));
  }
  return texts;
}

TEST(Tokenizer, GivesTheSameRowsOnManyThreads) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("gpt2.json"));
  const auto texts = many_texts();

  const auto single_threaded = tokenizer(texts, {.num_threads = 1});
  const auto multi_threaded = tokenizer(texts, {.num_threads = 4});

  ASSERT_EQ(single_threaded.size(), texts.size());
  EXPECT_EQ(single_threaded.rows, multi_threaded.rows);
}

TEST(Tokenizer, MayBeCalledByManyThreads) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("bert.json"));
  const auto texts = many_texts();
  const auto expected = tokenizer(texts, {.num_threads = 1});
  std::vector<BatchEncoding> results(4);
  {
    std::vector<std::jthread> threads;
    for (BatchEncoding& result : results) {
      threads.emplace_back(
          [&] { result = tokenizer(texts, {.num_threads = 2}); });
    }
  }
  for (const BatchEncoding& result : results) {
    EXPECT_EQ(result.rows, expected.rows);
  }
}

TEST(Tokenizer, RethrowsTheExceptionOfAThread) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("bert.json"));
  auto texts = many_texts();
  texts[300] = "\xFF";

  EXPECT_ANY_THROW((void)tokenizer(texts, {.num_threads = 4}));
}

TEST(Tokenizer, EncodesTextsInBracesAsABatch) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("bert.json"));

  const BatchEncoding batch = tokenizer({"hello", "world"});

  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[1].input_ids, tokenizer.encode("world"));
}

TEST(Tokenizer, ReturnsTheOverflowOfASingleText) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("folders/bert"));

  const Encoding encoding = tokenizer(
      "low lower lowest newer newest wider widest",
      {.truncation = true,
       .max_length = 5,
       .stride = 1,
       .return_overflowing_tokens = true});

  EXPECT_EQ(encoding.size(), 5u);
  ASSERT_FALSE(encoding.overflowing.empty());
  EXPECT_EQ(encoding.overflowing[0].input_ids[1], encoding.input_ids[3]);
}

TEST(Tokenizer, LoadsWithSpecialTokensFromOptions) {
  const auto tokenizer = AutoTokenizer::from_pretrained(
      golden_path("gpt2.json"),
      {.padding_side = Side::left,
       .special_tokens = {
           {"pad_token", "<|endoftext|>"}, {"sep_token", "<new>"}}});

  EXPECT_EQ(tokenizer.pad_token_id(), 0);
  EXPECT_EQ(tokenizer.sep_token_id(), tokenizer.vocab_size());
  EXPECT_EQ(tokenizer.encode("<new>").size(), 1u);
  const BatchEncoding batch = tokenizer({"a", "a b c"}, {.padding = true});
  EXPECT_EQ(batch[0].attention_mask.front(), 0);
  EXPECT_EQ(batch[0].attention_mask.back(), 1);
}

TEST(Tokenizer, ConvertsTokensToIdsAndBack) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("folders/bert"));
  const auto tokens = tokenizer.tokenize("hello world");

  EXPECT_EQ(
      tokenizer.convert_ids_to_tokens(tokenizer.convert_tokens_to_ids(tokens)),
      tokens);
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(1 << 30), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(-1), std::nullopt);
  EXPECT_EQ(
      tokenizer.convert_tokens_to_ids({"no such token"}),
      std::vector<std::int64_t>{*tokenizer.unk_token_id()});
  EXPECT_EQ(tokenizer.decode({-5, 1 << 30}), "");
}

TEST(Tokenizer, KeepsTheModelInputNamesWhenSaved) {
  const accelerate::TemporaryDirectory folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  const auto tokenizer = AutoTokenizer::from_pretrained(folder.path().string());
  ASSERT_FALSE(tokenizer("a", "b").token_type_ids.empty());

  tokenizer.save_pretrained(folder.path() / "saved");
  const auto reloaded =
      AutoTokenizer::from_pretrained((folder.path() / "saved").string());

  EXPECT_EQ(reloaded.model_input_names(), tokenizer.model_input_names());
  EXPECT_EQ(reloaded("a", "b"), tokenizer("a", "b"));
}

TEST(Tokenizer, BatchDecodeEqualsDecodeOfEachRow) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("bert.json"));
  const std::vector<std::vector<std::int64_t>> rows = {
      tokenizer.encode("hello world"), {}, tokenizer.encode("lower newest")};

  const auto texts =
      tokenizer.batch_decode(rows, {.skip_special_tokens = true});

  EXPECT_EQ(
      texts, (std::vector<std::string>{"hello world", "", "lower newest"}));
  EXPECT_EQ(tokenizer.batch_decode(rows)[2], tokenizer.decode(rows[2]));
}

TEST(Tokenizer, CountsTheSpecialTokensItAdds) {
  const auto bert = AutoTokenizer::from_pretrained(golden_path("bert.json"));
  const auto roberta =
      AutoTokenizer::from_pretrained(golden_path("roberta.json"));
  const auto gpt2 = AutoTokenizer::from_pretrained(golden_path("gpt2.json"));

  EXPECT_EQ(bert.num_special_tokens_to_add(), 2);
  EXPECT_EQ(bert.num_special_tokens_to_add(true), 3);
  EXPECT_EQ(roberta.num_special_tokens_to_add(true), 4);
  EXPECT_EQ(gpt2.num_special_tokens_to_add(true), 0);
}

std::string tokenizer_json(
    const std::string& model, const std::string& sections = "") {
  return "{" + sections + R"("model":)" + model + "}";
}

Tokenizer load_text(const std::string& json) {
  const accelerate::TemporaryDirectory folder;
  return AutoTokenizer::from_pretrained(folder.write("t.json", json).string());
}

TEST(Tokenizer, NeedsNoUnknownTokenForKnownCharacters) {
  const auto tokenizer = load_text(tokenizer_json(
      R"({"type":"Unigram","unk_id":null,"vocab":[["a",-1],["b",-2]]})"));

  EXPECT_EQ(tokenizer.encode("aab"), (std::vector<std::int64_t>{0, 0, 1}));
  EXPECT_EQ(
      accelerate::message_of<accelerate::ArgumentError>(
          [&] { (void)tokenizer.encode("axb"); }),
      "`x` is not in the vocabulary, and the tokenizer has no unknown token "
      "(`unk_id` is null)");
}

TEST(Tokenizer, AcceptsAnEmptyCharacterMap) {
  const auto tokenizer = load_text(tokenizer_json(
      R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"b":1}})",
      R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAAAA=="},)"));

  EXPECT_EQ(tokenizer.encode("b"), std::vector<std::int64_t>{1});
}

// Python returns one of the two tokens at random.
TEST(Tokenizer, FindsTheSmallerIdOfTokensWithTheSameNormalizedText) {
  const std::string model =
      R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"b":1,"foo":2}})";
  const std::string first = R"({"id":3,"content":"Foo"})";
  const std::string second = R"({"id":2,"content":"foo"})";
  const auto load = [&](const std::string& tokens) {
    return load_text(tokenizer_json(
        model,
        R"("normalizer":{"type":"Lowercase"},"added_tokens":[)" + tokens +
            "],"));
  };

  const auto tokenizer = load(first + "," + second);

  EXPECT_EQ(tokenizer.encode("fooFOO"), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(tokenizer.token_to_id("Foo"), 3);
  EXPECT_EQ(
      load(second + "," + first).encode("FOO"), std::vector<std::int64_t>{2});
}

// The expected ids are those of `tokenizers` 0.23.3: only `normalized` matters,
// not the order of the tokens or whether they are special.
TEST(Tokenizer, FindsTokensWithTheSameNormalizedTextByTheirFlag) {
  struct Case {
    const char* normalizer;
    std::string raw;         // A token with `"normalized": false`.
    std::string normalized;  // A token with `"normalized": true`.
    std::string other;       // Has the same normalized text; not a token.
  };
  const auto token = [](int id, const std::string& text, bool normalized) {
    return R"({"id":)" + std::to_string(id) + R"(,"content":")" + text +
           R"(","normalized":)" + (normalized ? "true" : "false") +
           R"(,"special":)";
  };
  const char* const lowercase = R"({"type":"Lowercase"})";
  const char* const nfkc = R"({"type":"NFKC"})";
  const char* const accents =
      R"({"type":"Sequence","normalizers":[{"type":"NFD"},)"
      R"({"type":"StripAccents"}]})";
  for (const Case& c : {
           Case{lowercase, "<Foo>", "<foo>", "<FOO>"},
           Case{lowercase, "<foo>", "<Foo>", "<FOO>"},
           Case{nfkc, "ﬁ", "fi", "ｆi"},
           Case{nfkc, "fi", "ﬁ", "ｆi"},
           Case{accents, "é", "e", "è"},
           Case{accents, "e", "é", "è"},
       }) {
    for (int flags = 0; flags < 8; ++flags) {
      SCOPED_TRACE(testing::Message() << c.raw << " " << flags);
      const bool raw_first = (flags & 1) != 0;
      const std::int64_t raw_id = raw_first ? 2 : 3;
      const std::string raw =
          token(2, c.raw, false) + ((flags & 2) != 0 ? "true}" : "false}");
      const std::string normalized = token(3, c.normalized, true) +
                                     ((flags & 4) != 0 ? "true}" : "false}");

      const auto tokenizer = load_text(tokenizer_json(
          R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"b":1}})",
          R"("normalizer":)" + std::string(c.normalizer) +
              R"(,"added_tokens":[)" +
              (raw_first ? raw + "," + normalized : normalized + "," + raw) +
              "],"));

      EXPECT_EQ(
          tokenizer.encode(c.raw + "b" + c.normalized + c.other),
          (std::vector<std::int64_t>{raw_id, 1, 5 - raw_id, 5 - raw_id}));
    }
  }
}

// An algorithm with quadratic running time exceeds the time limit of the tests.
TEST(Tokenizer, LoadsManyAddedTokens) {
  std::string tokens;
  for (int i = 0; i < 400'000; ++i) {
    tokens += i == 0 ? "" : ",";
    tokens += R"({"id":)" + std::to_string(i + 2) + R"(,"content":"<t)" +
              std::to_string(i) + R"(>"})";
  }

  const auto tokenizer = load_text(tokenizer_json(
      R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"b":1}})",
      R"("added_tokens":[)" + tokens + "],"));

  EXPECT_EQ(tokenizer.encode("<t399999>").front(), 400'001);
}

// Without a limit, more of these stages would need gigabytes.
TEST(Tokenizer, LimitsTheGrowthOfAText) {
  const auto message = [](std::string_view stage, const std::string& text) {
    std::string stages(stage);
    for (int i = 1; i < 12; ++i) {
      stages += "," + std::string(stage);
    }
    const auto tokenizer = load_text(tokenizer_json(
        R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0}})",
        R"("normalizer":{"type":"Sequence","normalizers":[)" + stages + "]},"));
    return accelerate::message_of<accelerate::FormatError>(
        [&] { (void)tokenizer.encode(text); });
  };
  std::string accented;
  for (int i = 0; i < 500; ++i) {
    accented += "é";
  }
  const std::string expected =
      "the stages of the tokenizer would make the text longer than 1112576 "
      "bytes, the limit for a text of its original length";

  EXPECT_EQ(
      message(
          R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})",
          std::string(1000, 'a')),
      expected);
  EXPECT_EQ(message(R"({"type":"ByteLevel"})", accented), expected);
}

TEST(Tokenizer, ReadsTheFilesNextToTokenizerJsonOnly) {
  const accelerate::TemporaryDirectory folder;
  const std::string json = tokenizer_json(
      R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"b":1}})");
  folder.write("tokenizer_config.json", R"({"pad_token":"<pad>"})");

  const auto standard = AutoTokenizer::from_pretrained(
      folder.write("tokenizer.json", json).string());
  const auto other =
      AutoTokenizer::from_pretrained(folder.write("other.json", json).string());

  EXPECT_EQ(standard.pad_token_id(), 2);
  EXPECT_EQ(other.pad_token_id(), std::nullopt);
}

TEST(Tokenizer, EncodesAnEmptyBatch) {
  const auto tokenizer =
      AutoTokenizer::from_pretrained(golden_path("bert.json"));

  EXPECT_EQ(tokenizer(std::vector<std::string>{}).size(), 0u);
}

}  // namespace
}  // namespace transformers
