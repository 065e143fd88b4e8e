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

// Each of the next five tables describes a set of characters that differs
// slightly from a property in regular expressions (unicode_properties.h),
// because the set comes from another version of Unicode. A character in the
// table is in the set if it does not have the property; any other character is
// in the set if it has the property.

// The characters that \w matches; property `word`.
extern const CodeRanges kWordDifferences;
// The characters that `Digits` splits off; property `N`.
extern const CodeRanges kNumericDifferences;
// Punctuation; property `P`.
extern const CodeRanges kPunctuationDifferences;
// The characters that `strip_accents` (BERT) removes; property `Mn`.
extern const CodeRanges kNonspacingMarkDifferences;
// The characters that `StripAccents` removes; property `M`.
extern const CodeRanges kCombiningMarkDifferences;

// The characters that `clean_text` removes.
extern const CodeRanges kControls;
// The characters that BERT puts spaces around.
extern const CodeRanges kChinese;

// Characters that NFD and NFC decompose (`kCanonical`), and characters that
// NFKD and NFKC decompose (`kCompatible`). The decompositions come from
// utf8proc.
extern const CodeRanges kCanonical;
extern const CodeRanges kCompatible;

extern const CaseRanges kLowerCase;  // Without U+0130 (see `LowerCase`).
extern const ClassRanges kMarkClasses;

}  // namespace transformers::tokenizers
