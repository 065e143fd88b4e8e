// SPDX-License-Identifier: Apache-2.0
// Helpers that several fuzz targets need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::fuzz {

/// Ends the program if a property of the tested code does not hold.
inline void expect(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// Splits an input at lines of four equals signs.
inline std::vector<std::string> parts_of(
    const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kSeparator = "\n====\n";
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> parts;
  for (auto at = rest.find(kSeparator); at != rest.npos;
       at = rest.find(kSeparator)) {
    parts.emplace_back(rest.substr(0, at));
    rest.remove_prefix(at + kSeparator.size());
  }
  parts.emplace_back(rest);
  return parts;
}

}  // namespace accelerate::fuzz
