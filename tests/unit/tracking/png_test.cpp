// SPDX-License-Identifier: Apache-2.0
#include "tracking/png.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tracking/crc32c.h"

namespace accelerate {
namespace {

std::uint32_t big_endian_at(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8U | static_cast<unsigned char>(bytes.at(at + i));
  }
  return value;
}

/// Decompresses DEFLATE data with fixed codes.
class Inflate {
 public:
  explicit Inflate(const std::string& bytes) : bytes_(bytes) {}

  std::string run() {
    EXPECT_EQ(bits(1), 1U);
    EXPECT_EQ(bits(2), 1U);
    for (std::uint32_t symbol = next(); symbol != 256; symbol = next()) {
      if (symbol < 256) {
        result_ += static_cast<char>(symbol);
      } else {
        copy(symbol);
      }
    }
    return result_;
  }

 private:
  std::uint32_t bits(int count) {
    std::uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++position_) {
      const auto byte = static_cast<unsigned char>(bytes_.at(position_ / 8));
      value |= (byte >> (position_ % 8) & 1U) << static_cast<unsigned>(i);
    }
    return value;
  }
  std::uint32_t code(int count, std::uint32_t value = 0) {
    for (int i = 0; i < count; ++i) {
      value = value << 1U | bits(1);
    }
    return value;
  }
  std::uint32_t next() {
    std::uint32_t value = code(7);
    if (value < 24) {
      return value + 256;
    }
    value = code(1, value);
    if (value < 0xc0) {
      return value - 0x30;
    }
    return value < 0xc8 ? value - 0xc0 + 280 : code(1, value) - 0x190 + 144;
  }
  void copy(std::uint32_t symbol) {
    // The tables of RFC 1951, section 3.2.5.
    constexpr std::uint32_t kLengths[] = {
        3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
        31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    constexpr std::uint32_t kDistances[] = {
        1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
        33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
        1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    const std::uint32_t index = symbol - 257;
    const int length_bits =
        index < 8 || index == 28 ? 0 : static_cast<int>(index / 4 - 1);
    const std::uint32_t length = kLengths[index] + bits(length_bits);
    const std::uint32_t distance_code = code(5);
    const int distance_bits =
        distance_code < 4 ? 0 : static_cast<int>(distance_code / 2 - 1);
    const std::uint32_t distance =
        kDistances[distance_code] + bits(distance_bits);
    for (std::uint32_t i = 0; i < length; ++i) {
      result_ += result_.at(result_.size() - distance);
    }
  }

  const std::string& bytes_;
  std::size_t position_ = 0;
  std::string result_;
};

// The pixels in a file that `encode_png` wrote.
std::string decoded_pixels(const std::string& png, const PixelLayout& layout) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string data;
  for (std::size_t at = 8; at < png.size();) {
    const std::uint32_t size = big_endian_at(png, at);
    const std::string typed = png.substr(at + 4, size + 4);
    EXPECT_EQ(big_endian_at(png, at + 8 + size), crc32(typed));
    if (typed.starts_with("IDAT")) {
      data += typed.substr(4);
    }
    at += size + 12;
  }
  const std::string compressed = data.substr(2, data.size() - 6);
  const std::string rows = Inflate(compressed).run();
  const auto channels = static_cast<std::size_t>(layout.channels);
  const auto row_bytes = static_cast<std::size_t>(layout.width) * channels;
  std::string pixels;
  for (std::size_t at = 0; at < rows.size(); at += row_bytes + 1) {
    EXPECT_EQ(rows[at], 1);
    for (std::size_t i = 0; i < row_bytes; ++i) {
      const char left = i < channels ? '\0' : pixels[pixels.size() - channels];
      pixels += static_cast<char>(rows[at + 1 + i] + left);
    }
  }
  return pixels;
}

std::string noise(std::size_t size, std::uint32_t values) {
  std::string bytes;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < size; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>((state >> 16U) % values);
  }
  return bytes;
}

TEST(Png, KeepsEveryPixel) {
  for (const std::int64_t channels : {1, 3, 4}) {
    for (const auto& [width, height] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {3, 2}, {64, 48}, {300, 200}}) {
      const PixelLayout layout{width, height, channels};
      const auto size = static_cast<std::size_t>(width * height * channels);
      for (const std::string& pixels :
           {std::string(size, '\x7f'), noise(size, 256), noise(size, 3)}) {
        EXPECT_EQ(decoded_pixels(encode_png(layout, pixels), layout), pixels);
      }
    }
  }
}

TEST(Png, CompressesPlainAreas) {
  const PixelLayout layout{300, 200, 3};

  const std::string png = encode_png(layout, std::string(300 * 200 * 3, '\0'));

  EXPECT_LT(png.size(), 3000U);
}

}  // namespace
}  // namespace accelerate
