// SPDX-License-Identifier: Apache-2.0
// The Unicode properties of regular expressions: `\p{...}`, `[[:...:]]`, `\w`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizers/text/unicode_tables.h"

namespace transformers::tokenizers {

/// Returns the number of a property, or -1 if there is none of that name. Upper
/// and lower case, spaces, hyphens and underscores make no difference. The
/// numbers 0 to 14 are Oniguruma's `ONIGENC_CTYPE_NEWLINE` to
/// `ONIGENC_CTYPE_ASCII`.
int find_property(std::string_view name);
/// Returns the code points with a property, in ascending order.
std::vector<CodeRange> property_ranges(int property);

/// The tables in unicode_property_tables.cpp. The code points from `first` to
/// the next run have the same general category.
struct CategoryRun {
  std::uint32_t first;
  std::uint8_t category;
};
extern const std::span<const CategoryRun> kCategoryRuns;

/// A property is a union of general categories (a bit for each), except in
/// `count` ranges of `kPropertyDifferences`, where it is the opposite.
struct PropertyData {
  std::uint32_t categories;
  std::uint16_t first;
  std::uint16_t count;
};
extern const std::span<const PropertyData> kProperties;
extern const CodeRanges kPropertyDifferences;

/// In lower case without separators, sorted.
struct PropertyName {
  std::string_view name;
  std::uint16_t property;
};
extern const std::span<const PropertyName> kPropertyNames;

/// Letters that are equal regardless of case since a version of Unicode after
/// 13, which the oldest supported Oniguruma has.
struct CaseFold {
  std::uint32_t upper;
  std::uint32_t lower;
};
extern const std::span<const CaseFold> kNewCaseFolds;

}  // namespace transformers::tokenizers
