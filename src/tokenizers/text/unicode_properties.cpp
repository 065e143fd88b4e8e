// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/text/unicode_properties.h"

#include <algorithm>
#include <string>

namespace transformers::tokenizers {
namespace {

constexpr std::uint32_t kEnd = 0x110000;

void append_range(
    std::vector<CodeRange>& ranges, std::uint32_t first, std::uint32_t last) {
  if (!ranges.empty() && ranges.back().last + 1 == first) {
    ranges.back().last = last;
  } else {
    ranges.push_back({first, last});
  }
}

std::vector<CodeRange> category_ranges(std::uint32_t categories) {
  std::vector<CodeRange> ranges;
  for (std::size_t i = 0; i < kCategoryRuns.size(); ++i) {
    if ((categories >> kCategoryRuns[i].category & 1) != 0) {
      const std::uint32_t end =
          i + 1 < kCategoryRuns.size() ? kCategoryRuns[i + 1].first : kEnd;
      append_range(ranges, kCategoryRuns[i].first, end - 1);
    }
  }
  return ranges;
}

// Returns the code points that are in exactly one of the two lists.
std::vector<CodeRange> symmetric_difference(CodeRanges a, CodeRanges b) {
  std::vector<std::uint32_t> edges;
  for (const CodeRanges ranges : {a, b}) {
    for (const CodeRange& range : ranges) {
      edges.push_back(range.first);
      edges.push_back(range.last + 1);
    }
  }
  std::sort(edges.begin(), edges.end());
  std::vector<CodeRange> result;
  for (std::size_t i = 0; i + 1 < edges.size(); i += 2) {
    if (edges[i] != edges[i + 1]) {
      append_range(result, edges[i], edges[i + 1] - 1);
    }
  }
  return result;
}

}  // namespace

int find_property(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') {
      key += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
  }
  const auto found = std::lower_bound(
      kPropertyNames.begin(),
      kPropertyNames.end(),
      key,
      [](const PropertyName& entry, const std::string& value) {
        return entry.name < value;
      });
  return found != kPropertyNames.end() && found->name == key ? found->property
                                                             : -1;
}

std::vector<CodeRange> property_ranges(int property) {
  const PropertyData& data = kProperties[static_cast<std::size_t>(property)];
  return symmetric_difference(
      category_ranges(data.categories),
      kPropertyDifferences.subspan(data.first, data.count));
}

}  // namespace transformers::tokenizers
