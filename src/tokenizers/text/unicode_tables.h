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

/// Every `step`th character from `first` to `last` has a lower-case form, whose
/// code point is larger by `delta`.
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

// Each of these sets equals a property of regular expressions
// (unicode_properties.h), except in the ranges of its table, which have the
// opposite value. The sets come from other versions of Unicode than the
// properties.
extern const CodeRanges kWordDifferences;         // \w: `word`
extern const CodeRanges kNumericDifferences;      // `Digits` splits here: `N`
extern const CodeRanges kPunctuationDifferences;  // punctuation: `P`
// `strip_accents` (BERT) removes these: `Mn`
extern const CodeRanges kNonspacingMarkDifferences;
// `StripAccents` removes these: `M`
extern const CodeRanges kCombiningMarkDifferences;

extern const CodeRanges kControls;  // `clean_text` removes these
extern const CodeRanges kChinese;   // BERT adds spaces around these

// Characters that the normalization forms decompose. The decompositions come
// from utf8proc.
extern const CodeRanges kCanonical;
extern const CodeRanges kCompatible;

extern const CaseRanges kLowerCase;  // Without U+0130 (see `LowerCase`).
extern const ClassRanges kMarkClasses;

}  // namespace transformers::tokenizers
