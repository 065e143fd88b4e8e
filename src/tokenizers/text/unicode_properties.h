// SPDX-License-Identifier: Apache-2.0
// The Unicode properties of regular expressions: `\p{...}`, `[[:...:]]`, `\w`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizers/text/unicode_tables.h"

namespace transformers::tokenizers {

/// Returns the number of the property with this name, or -1 if there is no such
/// property. Ignores case, spaces, hyphens and underscores. The numbers 0 to 14
/// are Oniguruma's `ONIGENC_CTYPE_NEWLINE` to `ONIGENC_CTYPE_ASCII`.
int find_property(std::string_view name);
/// Returns the code points with a property, in ascending order.
std::vector<CodeRange> property_ranges(int property);

/// An entry in a table in unicode_property_tables.cpp. The code points from
/// `first` to the start of the next run have the same general category.
struct CategoryRun {
  std::uint32_t first;
  std::uint8_t category;
};
extern const std::span<const CategoryRun> kCategoryRuns;

/// A property that contains the code points with certain general categories;
/// each bit of `categories` stands for one category. The opposite applies to
/// the code points in `count` ranges of `kPropertyDifferences`, starting at
/// index `first`.
struct PropertyData {
  std::uint32_t categories;
  std::uint16_t first;
  std::uint16_t count;
};
extern const std::span<const PropertyData> kProperties;
extern const CodeRanges kPropertyDifferences;

/// A name of a property, in lower case and without separators. The table is
/// sorted by name.
struct PropertyName {
  std::string_view name;
  std::uint16_t property;
};
extern const std::span<const PropertyName> kPropertyNames;

/// A pair of letters that differ only in case and that Unicode added after
/// version 13. The oldest supported Oniguruma contains Unicode 13.
struct CaseFold {
  std::uint32_t upper;
  std::uint32_t lower;
};
extern const std::span<const CaseFold> kNewCaseFolds;

}  // namespace transformers::tokenizers
