// SPDX-License-Identifier: Apache-2.0
// The character sets that the stages of Hugging Face `tokenizers` use.
#pragma once

#include <cstdint>
#include <span>

namespace transformers::tokenizers {

struct CodeRange {
  std::uint32_t first;
  std::uint32_t last;
};
using CodeRanges = std::span<const CodeRange>;

/// Every `step`th character from `first` to `last` has a lower case, whose code
/// point is larger by `delta`.
struct CaseRange {
  std::uint32_t first;
  std::uint32_t last;
  std::int32_t delta;
  std::uint32_t step;
};
using CaseRanges = std::span<const CaseRange>;

/// A range of characters with the same combining class, which is not 0.
struct ClassRange {
  std::uint32_t first;
  std::uint32_t last;
  std::uint8_t combining_class;
};
using ClassRanges = std::span<const ClassRange>;

extern const CodeRanges kLetters;      // \p{L} in regular expressions
extern const CodeRanges kNumbers;      // \p{N} in regular expressions
extern const CodeRanges kSpaces;       // White_Space
extern const CodeRanges kWords;        // \w
extern const CodeRanges kNumerics;     // `Digits` splits at these
extern const CodeRanges kPunctuation;  // punctuation in ASCII and in Unicode
extern const CodeRanges kControls;     // `clean_text` removes these
// `strip_accents` (BERT) removes these
extern const CodeRanges kNonspacingMarks;
extern const CodeRanges kCombiningMarks;  // `StripAccents` removes these
extern const CodeRanges kChinese;         // BERT adds spaces around these

// Characters that the normalization forms decompose. The decompositions come
// from utf8proc.
extern const CodeRanges kCanonical;
extern const CodeRanges kCompatible;

extern const CaseRanges kLowerCase;  // Without U+0130 (see `LowerCase`).
extern const ClassRanges kMarkClasses;

}  // namespace transformers::tokenizers
