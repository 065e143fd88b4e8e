// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/text/unicode.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "tokenizers/text/unicode_properties.h"
#include "tokenizers/text/unicode_tables.h"

namespace transformers::tokenizers {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

void flip_flag(
    std::vector<std::uint16_t>& classes,
    CodeRanges ranges,
    std::uint16_t flag) {
  for (const CodeRange& range : ranges) {
    for (std::uint32_t c = range.first; c <= range.last; ++c) {
      classes[c] = static_cast<std::uint16_t>(classes[c] ^ flag);
    }
  }
}

std::vector<std::uint16_t> all_classes() {
  std::vector<std::uint16_t> classes(kCodePoints);
  const auto add = [&](std::string_view property, std::uint16_t flag) {
    flip_flag(classes, property_ranges(find_property(property)), flag);
  };
  add("L", kLetter);
  add("N", kNumber);
  add("White_Space", kSpace);
  add("word", kWord);
  flip_flag(classes, kWordDifferences, kWord);
  add("N", kNumeric);
  flip_flag(classes, kNumericDifferences, kNumeric);
  add("P", kPunct);
  flip_flag(classes, kPunctuationDifferences, kPunct);
  add("Mn", kNonspacingMark);
  flip_flag(classes, kNonspacingMarkDifferences, kNonspacingMark);
  add("M", kCombiningMark);
  flip_flag(classes, kCombiningMarkDifferences, kCombiningMark);
  add("M", kMark);
  add("PosixPunct", kPunctuationOrSymbol);
  flip_flag(classes, kControls, kControl);
  flip_flag(classes, kChinese, kCjk);
  flip_flag(classes, kCanonical, kDecomposes);
  flip_flag(classes, kCompatible, kCompatDecomposes);
  for (const ClassRange& range : kMarkClasses) {
    for (std::uint32_t c = range.first; c <= range.last; ++c) {
      classes[c] |= kHasCombiningClass;
    }
  }
  for (const CaseRange& range : kLowerCase) {
    for (std::uint32_t c = range.first; c <= range.last; c += range.step) {
      classes[c] |= kHasLower;
    }
  }
  classes[0x130] |= kHasLower;
  return classes;
}

}  // namespace

CharacterTable::CharacterTable() {
  const std::vector<std::uint16_t> classes = all_classes();
  std::map<std::vector<std::uint16_t>, std::uint16_t> block_index;
  std::vector<std::uint16_t> unique;
  for (std::size_t block = 0; block < kCodePoints / 256; ++block) {
    const auto begin =
        classes.begin() + static_cast<std::ptrdiff_t>(block * 256);
    const std::vector<std::uint16_t> content(begin, begin + 256);
    const auto [found, added] = block_index.emplace(
        content, static_cast<std::uint16_t>(unique.size() / 256));
    if (added) {
      unique.insert(unique.end(), content.begin(), content.end());
    }
    blocks_[block] = found->second;
  }
  classes_ = new std::uint16_t[unique.size()];
  std::copy(unique.begin(), unique.end(), classes_);
}

const CharacterTable& CharacterTable::get() {
  // Never destroyed, because a thread that outlives `main` may use a tokenizer.
  static const CharacterTable& table = *new CharacterTable();
  return table;
}

LowerCase to_lower(char32_t c) {
  if (c < 0x80) {
    return {c >= 'A' && c <= 'Z' ? c + 32 : c, 0};
  }
  if (c == 0x130) {
    return {'i', 0x307};
  }
  if (!is_a(c, kHasLower)) {
    return {c, 0};
  }
  auto range = std::upper_bound(
      kLowerCase.begin(),
      kLowerCase.end(),
      c,
      [](char32_t value, const CaseRange& r) { return value < r.first; });
  // A range with step 2 may enclose other ranges, so the search goes backward.
  while (range != kLowerCase.begin()) {
    --range;
    if (c <= range->last && (c - range->first) % range->step == 0) {
      return {
          static_cast<char32_t>(static_cast<std::int64_t>(c) + range->delta),
          0};
    }
  }
  return {c, 0};
}

char32_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
    --at;
  }
  std::size_t length = 0;
  return read_character(text.data() + at, length);
}

void append_character(std::string& text, char32_t c) {
  const auto add = [&](char32_t byte) {
    text.push_back(static_cast<char>(byte));
  };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | (c >> 6));
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | (c >> 12));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | (c >> 18));
    add(0x80 | ((c >> 12) & 0x3F));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  std::size_t at = 0;
  std::uint64_t seen = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    seen |= word;
  }
  for (; at < text.size(); ++at) {
    seen |= static_cast<unsigned char>(text[at]);
  }
  return (seen & 0x8080808080808080ull) == 0;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
      }));
}

namespace {

// Returns the size of the first character. If it is not valid, returns the
// number of bytes that one U+FFFD replaces: the longest prefix of a valid
// character (the maximal subpart), or one byte.
std::size_t maximal_subpart(std::string_view bytes, bool& valid) {
  const auto at = [&](std::size_t i) {
    return static_cast<unsigned char>(bytes[i]);
  };
  const unsigned char lead = at(0);
  valid = lead < 0x80;
  if (lead < 0xC2 || lead > 0xF4) {
    return 1;
  }
  const std::size_t length = utf8_length(lead);
  unsigned low = 0x80;
  unsigned high = 0xBF;
  low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
  high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
  std::size_t i = 1;
  for (; i < length && i < bytes.size(); ++i) {
    if (at(i) < low || at(i) > high) {
      return i;
    }
    low = 0x80;
    high = 0xBF;
  }
  valid = i == length;
  return i;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t word = 0;
    while (at + 8 <= text.size()) {
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080ull) != 0) {
        break;
      }
      at += 8;
    }
    if (at == text.size()) {
      break;
    }
    const auto byte = [&](std::size_t i) {
      return static_cast<unsigned char>(text[i]);
    };
    const auto continues = [&](std::size_t i) {
      return (byte(i) & 0xC0) == 0x80;
    };
    // Most remaining characters are ASCII or have two or three bytes.
    if (byte(at) < 0x80) {
      ++at;
      continue;
    }
    if (byte(at) >= 0xC2 && byte(at) < 0xE0 && at + 1 < text.size() &&
        continues(at + 1)) {
      at += 2;
      continue;
    }
    if (byte(at) > 0xE0 && byte(at) < 0xF0 && byte(at) != 0xED &&
        at + 2 < text.size() && continues(at + 1) && continues(at + 2)) {
      at += 3;
      continue;
    }
    bool valid = false;
    const std::size_t length = maximal_subpart(text.substr(at), valid);
    if (!valid) {
      return at;
    }
    at += length;
  }
  return std::string_view::npos;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    bool valid = false;
    const std::size_t length = maximal_subpart(bytes, valid);
    if (valid) {
      text.append(bytes.substr(0, length));
    } else {
      text += "\xEF\xBF\xBD";
    }
    bytes.remove_prefix(length);
  }
  return text;
}

}  // namespace transformers::tokenizers
