// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/text/aligned_text.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers::tokenizers {
namespace {

// Published tokenizers make a text at most a few times longer.
constexpr std::size_t kMaxGrowth = 64;
constexpr std::size_t kAlwaysAllowed = 1 << 20;
// Spans store 32-bit offsets.
constexpr std::size_t kMaxSize = std::size_t{1} << 31;

}  // namespace

void AlignedText::assign(
    std::string_view part, std::uint32_t offset, bool track) {
  text.assign(part);
  offset_ = offset;
  max_size_ = std::min(kAlwaysAllowed + kMaxGrowth * part.size(), kMaxSize);
  tracked = track;
  spans.clear();
  if (!track) {
    return;
  }
  spans.reserve(part.size());
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t length =
        utf8_length(static_cast<unsigned char>(part[at]));
    const auto begin = static_cast<std::uint32_t>(offset + at);
    spans.resize(
        spans.size() + length,
        {begin, begin + static_cast<std::uint32_t>(length)});
    at += length;
  }
}

void AlignedText::assign_part(const AlignedText& source, const Span& range) {
  text.assign(source.text, range.begin, range.size());
  tracked = source.tracked;
  max_size_ = source.max_size_;
  if (tracked) {
    spans.assign(
        source.spans.begin() + range.begin, source.spans.begin() + range.end);
  }
}

void AlignedText::fail_size() const {
  throw accelerate::FormatError(
      accelerate::str_cat(
          "the stages of the tokenizer would make the text longer than ",
          max_size_,
          " bytes, the limit for a text of its original length"),
      "check the `Replace` and `Precompiled` stages of tokenizer.json");
}

namespace {

// Skips over the characters of the old text.
class CharacterSkipper {
 public:
  explicit CharacterSkipper(const std::string& text) : text_(text) {}

  std::size_t offset() const { return offset_; }
  void skip(std::size_t count) {
    for (; count > 0 && offset_ < text_.size(); --count) {
      offset_ += utf8_length(static_cast<unsigned char>(text_[offset_]));
    }
  }

 private:
  const std::string& text_;
  std::size_t offset_ = 0;
};

}  // namespace

void transform(AlignedText& text, const std::vector<Change>& changes) {
  std::string result;
  std::vector<Span> spans;
  result.reserve(text.text.size());
  CharacterSkipper old(text.text);
  for (const auto& [character, change] : changes) {
    append_character(result, character);
    const std::size_t offset = old.offset();
    if (change <= 0) {
      old.skip(static_cast<std::size_t>(1 - change));
    }
    if (text.tracked) {
      const std::size_t source_byte = change > 0 ? offset - 1 : offset;
      spans.resize(result.size(), text.span_of(source_byte));
    }
  }
  text.text = std::move(result);
  text.spans = std::move(spans);
}

}  // namespace transformers::tokenizers
