// SPDX-License-Identifier: Apache-2.0
// Writes PNG images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accelerate {

struct PixelLayout {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;  ///< 1 (gray), 3 (RGB) or 4 (RGBA)
};

/// Returns the bytes of a PNG file. `pixels` has one byte per channel, row by
/// row.
std::string encode_png(const PixelLayout& layout, std::string_view pixels);

}  // namespace accelerate
