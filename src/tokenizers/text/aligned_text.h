// SPDX-License-Identifier: Apache-2.0
// The text that the stages of a tokenizer rewrite, and the origin of each of
// its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizers/text/unicode.h"

namespace transformers::tokenizers {

/// A range of bytes in a text: [begin, end).
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  std::uint32_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

/// A part of a sentence, which is the text passed to the tokenizer. If
/// `tracked` is true, then for each byte of `text`, `spans` holds the byte
/// range, within the sentence, of the character from which this byte comes.
class AlignedText {
 public:
  /// Replaces the content with `part`, which begins at byte `offset` of the
  /// sentence.
  void assign(std::string_view part, std::uint32_t offset, bool track);

  /// Replaces the content with a part of `source`.
  void assign_part(const AlignedText& source, const Span& range);
  /// Throws `FormatError` if a stage makes the text so long that the tokenizer
  /// file must be malicious.
  void check_size(std::size_t size) const {
    if (size > max_size_) {
      fail_size();
    }
  }

  /// Returns the range in the sentence from which the byte `source_byte` of
  /// `text` comes. If `source_byte` is out of range, such as -1, returns an
  /// empty range at the beginning of the part.
  Span span_of(std::size_t source_byte) const {
    return source_byte < spans.size() ? spans[source_byte]
                                      : Span{offset_, offset_};
  }

  std::string text;
  std::vector<Span> spans;
  bool tracked = false;

 private:
  [[noreturn]] void fail_size() const;

  std::uint32_t offset_ = 0;
  std::size_t max_size_ = 0;
};

/// A character of a rewritten text. `change` is 1 if the character is inserted,
/// 0 if it replaces one character, and -n if it replaces one character and the
/// next n characters are removed.
struct Change {
  char32_t character;
  int change;
};

/// Rewrites a text and its alignment in the same way as `transform` in Hugging
/// Face `tokenizers`.
void transform(AlignedText& text, const std::vector<Change>& changes);

/// Rewrites a text from left to right.
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
  /// Copies the bytes [begin, end) with their alignment.
  void keep(std::size_t begin, std::size_t end) {
    text_.append(source_.text, begin, end - begin);
    if (source_.tracked) {
      spans_.insert(
          spans_.end(),
          source_.spans.begin() + static_cast<std::ptrdiff_t>(begin),
          source_.spans.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  /// Appends a character with the alignment of the byte `source_byte` of the
  /// source.
  void put(char32_t c, std::size_t source_byte) {
    append_character(text_, c);
    source_.check_size(text_.size());
    align_to(source_byte);
  }
  void put(std::string_view bytes, std::size_t source_byte) {
    text_.append(bytes);
    source_.check_size(text_.size());
    align_to(source_byte);
  }
  void finish() {
    source_.text.swap(text_);
    source_.spans.swap(spans_);
  }

 private:
  void align_to(std::size_t source_byte) {
    if (source_.tracked) {
      spans_.resize(text_.size(), source_.span_of(source_byte));
    }
  }

  AlignedText& source_;
  std::string text_;
  std::vector<Span> spans_;
};

}  // namespace transformers::tokenizers
