// SPDX-License-Identifier: Apache-2.0
// Long texts of the worst shapes: time stays in proportion to length.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <time.h>

#include "support/temporary_folder.h"
#include "transformers/tokenizer.h"

namespace transformers {
namespace {

constexpr std::size_t kShort = 1 << 15;
constexpr std::size_t kTimes = 4;

std::string repeated(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    text += part;
  }
  return text;
}

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// The least of three: what else the host does only adds to it.
double seconds_to_encode(
    const Tokenizer& tokenizer, const std::string& text, bool offsets) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = processor_seconds();
    const Encoding encoding =
        tokenizer(text, {.return_offsets_mapping = offsets, .num_threads = 1});
    least = std::min(least, processor_seconds() - begin);
    EXPECT_EQ(encoding.offset_mapping.size(), offsets ? encoding.size() : 0);
  }
  return least;
}

class HostileText : public testing::TestWithParam<const char*> {};

// A quadratic step takes sixteen times as long for a text four times as long.
TEST_P(HostileText, TakesTimeInProportion) {
  const Tokenizer tokenizer = AutoTokenizer::from_pretrained(
      std::string(ACCELERATE_GOLDEN) + "/tokenizers/" + GetParam() + ".json");
  for (const std::string_view part :
       {"a",
        " ",
        "ab",
        "\n",
        " \n",
        "é",
        "e\u0301",
        "\u0301",
        "中",
        "1",
        "'",
        "<mask",
        "<mask> ",
        "[",
        "▁",
        "\u200d",
        "🇩🇪",
        "lowlower"}) {
    SCOPED_TRACE(part);
    for (const bool offsets : {false, true}) {
      const double once =
          seconds_to_encode(tokenizer, repeated(part, kShort), offsets);
      const double more = seconds_to_encode(
          tokenizer, repeated(part, kTimes * kShort), offsets);

      // A millisecond for what does not depend on the text.
      EXPECT_LT(more, 10 * once + 1e-3) << "after " << once << " s";
    }
  }
}

TEST(HostileExpression, ARepeatedGroupTakesALongWord) {
  const accelerate::TemporaryFolder folder;
  folder.write(
      "tokenizer.json",
      R"({"pre_tokenizer":{"type":"Split","behavior":"Isolated","invert":false,)"
      R"("pattern":{"Regex":"(?:ab|a|\\p{L})+|\\s+"}},"model":{)"
      R"("type":"WordLevel","vocab":{"?":0,"x":1},"unk_token":"?"}})");
  const Tokenizer tokenizer =
      AutoTokenizer::from_pretrained(folder.path().string());

  const Encoding encoding = tokenizer(
      repeated("ab", 1 << 20) + " x", {.return_offsets_mapping = true});

  EXPECT_EQ(encoding.input_ids, (std::vector<std::int64_t>{0, 0, 1}));
  EXPECT_EQ(
      encoding.offset_mapping,
      (std::vector<Offsets>{
          {0, 1 << 20},
          {1 << 20, (1 << 20) + 1},
          {(1 << 20) + 1, (1 << 20) + 2}}));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    HostileText,
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
