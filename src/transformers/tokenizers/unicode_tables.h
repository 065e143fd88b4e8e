// SPDX-License-Identifier: Apache-2.0
// The sets of characters that each stage of the peer knows.
#pragma once

#include <cstdint>
#include <span>

namespace transformers::tokenizers {

struct CodeRange {
  std::uint32_t first;
  std::uint32_t last;
};
using CodeRanges = std::span<const CodeRange>;

/// Every `step`th character from `first` to `last` becomes lower case by
/// adding `delta`.
struct CaseRange {
  std::uint32_t first;
  std::uint32_t last;
  std::int32_t delta;
  std::uint32_t step;
};
using CaseRanges = std::span<const CaseRange>;

/// Characters of one combining class other than 0.
struct ClassRange {
  std::uint32_t first;
  std::uint32_t last;
  std::uint8_t combining_class;
};
using ClassRanges = std::span<const ClassRange>;

extern const CodeRanges kLetters;          // \p{L} of patterns
extern const CodeRanges kNumbers;          // \p{N} of patterns
extern const CodeRanges kSpaces;           // White_Space
extern const CodeRanges kWords;            // \w
extern const CodeRanges kNumerics;         // what `Digits` splits at
extern const CodeRanges kPunctuation;      // ASCII's and Unicode's
extern const CodeRanges kControls;         // what `clean_text` removes
extern const CodeRanges kNonspacingMarks;  // what BERT's `strip_accents` drops
extern const CodeRanges kCombiningMarks;   // what `StripAccents` drops
extern const CodeRanges kChinese;          // what BERT puts spaces round

// What the normal forms take apart; utf8proc knows into what.
extern const CodeRanges kCanonical;
extern const CodeRanges kCompatible;

extern const CaseRanges kLowerCase;  // U+0130 apart: it becomes two.
extern const ClassRanges kMarkClasses;

}  // namespace transformers::tokenizers
