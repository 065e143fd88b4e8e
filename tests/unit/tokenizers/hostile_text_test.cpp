// SPDX-License-Identifier: Apache-2.0
// Long worst-case texts: encoding takes linear time.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <time.h>

#include "support/temporary_directory.h"
#include "transformers/tokenizer.h"

namespace transformers {
namespace {

constexpr std::size_t kShortBytes = 1 << 15;
constexpr std::size_t kLengthFactor = 4;

std::string text_of_size(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    text += part;
  }
  return text;
}

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// The minimum of three runs: other load on the machine only adds time.
double seconds_to_encode(
    const Tokenizer& tokenizer, const std::string& text, bool offsets) {
  double minimum = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = cpu_seconds();
    const Encoding encoding =
        tokenizer(text, {.return_offsets_mapping = offsets, .num_threads = 1});
    minimum = std::min(minimum, cpu_seconds() - begin);
    EXPECT_EQ(encoding.offset_mapping.size(), offsets ? encoding.size() : 0);
  }
  return minimum;
}

class HostileText : public testing::TestWithParam<const char*> {};

// A quadratic step takes 16 times as long for a text that is 4 times as long.
TEST_P(HostileText, TakesLinearTime) {
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
      const double short_seconds = seconds_to_encode(
          tokenizer, text_of_size(part, kShortBytes), offsets);
      const double long_seconds = seconds_to_encode(
          tokenizer, text_of_size(part, kLengthFactor * kShortBytes), offsets);

      // One millisecond for the work that does not depend on the text.
      EXPECT_LT(long_seconds, 10 * short_seconds + 1e-3)
          << "short text: " << short_seconds << " s";
    }
  }
}

TEST(HostileExpression, ARepeatedGroupMatchesALongWord) {
  const accelerate::TemporaryDirectory folder;
  folder.write(
      "tokenizer.json",
      R"({"pre_tokenizer":{"type":"Split","behavior":"Isolated","invert":false,)"
      R"("pattern":{"Regex":"(?:ab|a|\\p{L})+|\\s+"}},"model":{)"
      R"("type":"WordLevel","vocab":{"?":0,"x":1},"unk_token":"?"}})");
  const Tokenizer tokenizer =
      AutoTokenizer::from_pretrained(folder.path().string());

  const Encoding encoding = tokenizer(
      text_of_size("ab", 1 << 20) + " x", {.return_offsets_mapping = true});

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
