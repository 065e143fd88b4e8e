// SPDX-License-Identifier: Apache-2.0
// Long texts of the worst shapes: time stays in proportion to length.
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "transformers/tokenizer.h"

namespace transformers {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;
constexpr std::size_t kLong = 1 << 17;

std::string repeated(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    text += part;
  }
  return text;
}

double seconds_to_encode(
    const Tokenizer& tokenizer, const std::string& text, bool offsets) {
  const auto begin = std::chrono::steady_clock::now();
  const Encoding encoding =
      tokenizer(text, {.return_offsets_mapping = offsets});
  EXPECT_EQ(encoding.offset_mapping.size(), offsets ? encoding.size() : 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

class HostileText : public testing::TestWithParam<const char*> {};

// A quadratic step would take a minute or more for any of these.
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
    const std::string text = repeated(part, part == "a" ? kMegabyte : kLong);

    EXPECT_LT(seconds_to_encode(tokenizer, text, false), 20);
    EXPECT_LT(seconds_to_encode(tokenizer, text, true), 20);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    HostileText,
    testing::Values(
        "added_tokens", "gpt2", "llama2_new", "llama3", "plain_bpe", "unigram"),
    [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace transformers
