// SPDX-License-Identifier: Apache-2.0
// Text on its way through a tokenizer, and where each byte of it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transformers/tokenizers/unicode.h"

namespace transformers::tokenizers {

/// Bytes [begin, end) of some text.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  std::uint32_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

/// A piece of a sentence. While `tracked`, `spans` has one entry per byte of
/// `text`: the bytes of the sentence it stands for, the whole character each.
class AlignedText {
 public:
  /// Starts over with a part of the sentence, which begins at `offset` there.
  void assign(std::string_view part, std::uint32_t offset, bool track);

  std::string text;
  std::vector<Span> spans;
  bool tracked = false;
};

/// A character of a rewritten text, and what it does to the old one: 1 comes
/// on top, 0 replaces one character, -n replaces one and swallows n more.
struct Change {
  char32_t character;
  int change;
};

/// Rewrites a text as the peer's `transform` does, alignment included.
void transform(AlignedText& text, const std::vector<Change>& changes);

/// Builds the successor of a text from left to right.
class Rewriter {
 public:
  explicit Rewriter(AlignedText& source) : source_(source) {
    text_.reserve(source.text.size() + 16);
    if (source.tracked) {
      spans_.reserve(source.text.size() + 16);
    }
  }

  std::uint32_t size() const {
    return static_cast<std::uint32_t>(text_.size());
  }
  /// Copies the bytes [begin, end) with what they stand for.
  void keep(std::size_t begin, std::size_t end) {
    text_.append(source_.text, begin, end - begin);
    if (source_.tracked) {
      spans_.insert(
          spans_.end(),
          source_.spans.begin() + static_cast<std::ptrdiff_t>(begin),
          source_.spans.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  /// Adds a character that stands for what the byte `like` stood for.
  void put(char32_t c, std::size_t like) {
    append_character(text_, c);
    stand_for(like);
  }
  void put(std::string_view bytes, std::size_t like) {
    text_.append(bytes);
    stand_for(like);
  }
  void finish() {
    source_.text.swap(text_);
    source_.spans.swap(spans_);
  }

 private:
  void stand_for(std::size_t like) {
    if (source_.tracked) {
      const Span span =
          like < source_.spans.size() ? source_.spans[like] : Span{};
      spans_.resize(text_.size(), span);
    }
  }

  AlignedText& source_;
  std::string text_;
  std::vector<Span> spans_;
};

}  // namespace transformers::tokenizers
