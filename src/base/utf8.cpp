// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

namespace accelerate {
namespace {

// The length of a character that starts with this byte; 0 for an invalid byte.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xc2) {
    return 0;
  }
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

}  // namespace

std::optional<Utf8Character> decode_utf8(std::string_view text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = length_of(first);
  if (length == 0 || length > text.size()) {
    return std::nullopt;
  }
  char32_t value = length == 1 ? first : first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0U) != 0x80U) {
      return std::nullopt;
    }
    value = (value << 6) | (byte & 0x3fU);
  }
  const bool overlong =
      (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (overlong || surrogate || value > 0x10ffff) {
    return std::nullopt;
  }
  return Utf8Character{value, length};
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto character = decode_utf8(text.substr(i));
    if (!character) {
      return i;
    }
    i += character->bytes;
  }
  return std::string_view::npos;
}

}  // namespace accelerate
