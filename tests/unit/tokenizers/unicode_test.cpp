// SPDX-License-Identifier: Apache-2.0
// Every code point in every stage that depends on Unicode, compared with
// checksums of Hugging Face `tokenizers` (tests/parity/make_unicode.py,
// tests/parity/make_regex.py, tools/make_unicode_properties.py).
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tokenizers/normalizers/normalizer.h"
#include "tokenizers/pre_tokenizers/pattern.h"
#include "tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "tokenizers/pre_tokenizers/scanners.h"
#include "tokenizers/text/byte_level.h"
#include "tokenizers/text/unicode_properties.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;

constexpr char32_t kBlock = 4096;

std::string crc32(const std::string& text) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> result;
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320u : 0);
      }
      result[i] = value;
    }
    return result;
  }();
  std::uint32_t sum = 0xFFFFFFFF;
  for (const char byte : text) {
    sum = table[(sum ^ static_cast<unsigned char>(byte)) & 255] ^ (sum >> 8);
  }
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", ~sum);
  return digits;
}

// Each code point between letters, after a digit, and with combining marks.
std::string sentences(char32_t first) {
  std::string text;
  for (char32_t c = first; c < first + kBlock; ++c) {
    if (c >= 0xD800 && c < 0xE000) {
      continue;
    }
    std::string character;
    append_character(character, c);
    text += text.empty() ? "a" : " a";
    text += character + "b 1" + character + " " + character + "\u0301\u0323" +
            character;
  }
  return text;
}

std::vector<char32_t> blocks() {
  std::vector<char32_t> block_starts;
  for (char32_t first = 0; first < 0x110000; first += kBlock) {
    const bool empty = first >= 0x40000 && first < 0xE0000;
    if (!empty && first <= 0xF0000) {
      block_starts.push_back(first);
    }
  }
  return block_starts;
}

std::string normalized(const std::string& type, const std::string& text) {
  const Json json = Json::object(
      {{"type", type},
       {"clean_text", true},
       {"handle_chinese_chars", true},
       {"lowercase", true}});
  AlignedText aligned;
  aligned.assign(text, 0, false);
  make_normalizer(JsonNode(json, "test", "$"))->normalize(aligned);
  return aligned.text;
}

std::string pieces(
    const std::string& type,
    const std::string& text,
    std::string_view expression = kLlama3Expression) {
  const Json json = Json::object(
      {{"type", type},
       {"individual_digits", true},
       {"add_prefix_space", false},
       {"pattern", Json::object({{"Regex", expression}})},
       {"behavior", "Isolated"},
       {"invert", false}});
  Pieces all;
  all.text.assign(text, 0, false);
  all.ranges.assign(1, {0, static_cast<std::uint32_t>(text.size())});
  Json punctuation = Json::object({{"type", type}});
  const Json& config = type == "Punctuation" ? punctuation : json;
  make_pre_tokenizer(JsonNode(config, "test", "$"))->split(all);
  std::string joined;
  for (std::size_t i = 0; i < all.ranges.size(); ++i) {
    joined.append(i == 0 ? 0 : 1, '\0');
    joined += all.view(all.ranges[i]);
  }
  return joined;
}

class EveryCodePoint : public testing::TestWithParam<const char*> {};

TEST_P(EveryCodePoint, MatchesPython) {
  const std::string type = GetParam();
  const Json golden = Json::parse(accelerate::read_file(
      ACCELERATE_GOLDEN "/tokenizers/unicode.json", 1 << 20));
  const Json& sums = golden.at(type);
  const std::vector<char32_t> block_starts = blocks();
  ASSERT_EQ(sums.size(), block_starts.size());
  const bool splits = type == "BertPreTokenizer" || type == "Whitespace" ||
                      type == "WhitespaceSplit" || type == "Digits" ||
                      type == "Punctuation" || type == "ByteLevel" ||
                      type == "Split";
  for (std::size_t i = 0; i < block_starts.size(); ++i) {
    SCOPED_TRACE(
        testing::Message() << std::hex << "block from U+" << +block_starts[i]);
    const std::string text = sentences(block_starts[i]);

    const std::string result =
        splits ? pieces(type, text) : normalized(type, text);

    EXPECT_EQ(crc32(result), sums.at(i).as_string());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    EveryCodePoint,
    testing::Values(
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Lowercase",
        "Nmt",
        "StripAccents",
        "BertNormalizer",
        "BertPreTokenizer",
        "Whitespace",
        "WhitespaceSplit",
        "Digits",
        "Punctuation",
        "ByteLevel",
        "Split"),
    [](const auto& test) { return std::string(test.param); });

// All sequences of four bytes at the limits of UTF-8, after 0 to 7 letters.
TEST(FindInvalidUtf8, FindsTheFirstInvalidByte) {
  static constexpr unsigned char kBytes[] = {
      0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
      0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF};
  constexpr std::size_t kCount = std::size(kBytes);
  for (std::size_t i = 0; i < kCount * kCount * kCount * kCount; ++i) {
    std::string text(i % 8, 'a');
    for (std::size_t rest = i, n = 0; n < 4; ++n, rest /= kCount) {
      text += static_cast<char>(kBytes[rest % kCount]);
    }
    text.append(i / 8 % 2 == 0 ? 0 : 9, 'b');

    ASSERT_EQ(find_invalid_utf8(text), accelerate::find_invalid_utf8(text))
        << "case " << i;
  }
}

Json::Object golden_expressions() {
  return Json::parse(accelerate::read_file(
                         ACCELERATE_GOLDEN "/tokenizers/regex.json", 1 << 20))
      .at("every_code_point")
      .as_object();
}

class EveryCodePointInRegex : public testing::TestWithParam<int> {};

TEST_P(EveryCodePointInRegex, MatchesPython) {
  const Json::Object expressions = golden_expressions();
  const auto& [expression, sum] = expressions.begin()[GetParam()];
  SCOPED_TRACE(expression);
  std::string sums;
  for (const char32_t first : blocks()) {
    sums += sums.empty() ? "" : " ";
    sums += crc32(pieces("Split", sentences(first), expression));
  }

  EXPECT_EQ(crc32(sums), sum.as_string());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    EveryCodePointInRegex,
    testing::Range(0, static_cast<int>(golden_expressions().size())));

Json golden_properties() {
  return Json::parse(accelerate::read_file(
      ACCELERATE_GOLDEN "/tokenizers/unicode_properties.json", 1 << 20));
}

// Returns the ranges of a property without surrogates, which cannot occur in a
// text.
std::string property_text(int property) {
  std::string text;
  const auto append = [&](std::uint32_t first, std::uint32_t last) {
    if (first <= last) {
      char part[32];
      std::snprintf(part, sizeof part, "%X-%X", first, last);
      text += text.empty() ? "" : " ";
      text += part;
    }
  };
  for (const CodeRange& range : property_ranges(property)) {
    append(range.first, std::min(range.last, 0xD7FFu));
    append(std::max(range.first, 0xE000u), range.last);
  }
  return text;
}

TEST(UnicodeProperties, MatchPython) {
  const Json golden = golden_properties();
  const auto& properties = golden.at("properties").as_object();
  ASSERT_EQ(properties.size(), kPropertyNames.size());
  for (const auto& [name, sum] : properties) {
    SCOPED_TRACE(name);
    const int property = find_property(name);
    ASSERT_GE(property, 0);

    EXPECT_EQ(crc32(property_text(property)), sum.as_string());
  }
}

TEST(UnicodeProperties, FindsANameInAnySpelling) {
  EXPECT_EQ(find_property("UPPERCASE_Letter"), find_property("Lu"));
  EXPECT_EQ(find_property(" upper case-letter"), find_property("Lu"));
  EXPECT_EQ(find_property("Lz"), -1);
  EXPECT_EQ(find_property(""), -1);
}

TEST(UnicodeProperties, LettersOfEitherCaseMatchAsInPython) {
  std::set<char32_t> letters;
  for (const char* name : {"cwcf", "cwl", "cwu", "cwt"}) {
    for (const CodeRange& range : property_ranges(find_property(name))) {
      for (std::uint32_t c = range.first; c <= range.last; ++c) {
        letters.insert(c);
      }
    }
  }
  std::string text;
  for (const char32_t c : letters) {
    append_character(text, c);
    text += '\n';
  }
  const Json json("");
  std::string lines;
  for (const char32_t c : letters) {
    char expression[32];
    std::snprintf(
        expression,
        sizeof expression,
        "(?i:\\x{%X})",
        static_cast<unsigned>(c));
    std::vector<Span> matches;
    make_regex(expression, JsonNode(json, "test", "$"))->find(text, matches);
    char number[16];
    std::snprintf(number, sizeof number, "%X", static_cast<unsigned>(c));
    lines += (lines.empty() ? "" : "\n") + std::string(number);
    for (const Span& match : matches) {
      std::size_t length = 0;
      std::snprintf(
          number,
          sizeof number,
          " %X",
          static_cast<unsigned>(
              read_character(text.data() + match.begin, length)));
      lines += number;
    }
  }

  EXPECT_EQ(crc32(lines), golden_properties().at("equal_letters").as_string());
}

}  // namespace
}  // namespace transformers::tokenizers
