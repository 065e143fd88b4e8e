// SPDX-License-Identifier: Apache-2.0
// UTF-8 decoding.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace accelerate {

struct Utf8Character {
  char32_t value = 0;
  std::size_t bytes = 0;
};

/// Returns the first character of `text`, or nothing when `text` is empty or
/// does not begin with well-formed UTF-8. Overlong forms, surrogates and values
/// above U+10FFFF are malformed.
std::optional<Utf8Character> decode_utf8(std::string_view text);

/// Returns the offset of the first byte that is not valid UTF-8, or `npos` if
/// the whole text is valid.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace accelerate
