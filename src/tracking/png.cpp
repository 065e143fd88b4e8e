// SPDX-License-Identifier: Apache-2.0
#include "tracking/png.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "tracking/crc32c.h"

namespace accelerate {
namespace {

std::string big_endian(std::uint32_t value) {
  return {
      static_cast<char>(value >> 24U),
      static_cast<char>(value >> 16U),
      static_cast<char>(value >> 8U),
      static_cast<char>(value)};
}

std::string png_chunk(std::string_view type, std::string_view data) {
  std::string typed(type);
  typed += data;
  return big_endian(static_cast<std::uint32_t>(data.size())) + typed +
         big_endian(crc32(typed));
}

std::uint32_t adler32(std::string_view bytes) {
  constexpr std::uint32_t kModulus = 65521;
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<unsigned char>(byte)) % kModulus;
    b = (b + a) % kModulus;
  }
  return (b << 16U) | a;
}

/// Writes DEFLATE data with the fixed codes of RFC 1951. Filtered images mostly
/// repeat the bytes before them or a pixel of the row above, so one candidate
/// per position is enough.
class Deflate {
 public:
  std::string compress(std::string_view bytes) {
    bits(1, 1);  // The last block,
    bits(1, 2);  // with fixed codes.
    for (std::size_t at = 0; at < bytes.size();) {
      const Match match = find_match(bytes, at);
      if (match.length < kMinMatch) {
        literal(static_cast<unsigned char>(bytes[at]));
        ++at;
      } else {
        length_and_distance(match);
        at += match.length;
      }
    }
    symbol(256);
    bits(0, 7);  // Completes the last byte.
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kMinMatch = 4;
  static constexpr std::size_t kMaxMatch = 258;
  static constexpr std::size_t kMaxDistance = 32768;
  static constexpr std::size_t kHashSize = 1U << 15U;

  struct Match {
    std::size_t length = 0;
    std::size_t distance = 0;
  };

  Match find_match(std::string_view bytes, std::size_t at) {
    if (at + kMinMatch > bytes.size()) {
      return {};
    }
    std::uint32_t hash = 0;
    for (std::size_t i = 0; i < kMinMatch; ++i) {
      hash = hash * 251 + static_cast<unsigned char>(bytes[at + i]);
    }
    std::size_t& last = last_[hash % kHashSize];
    const std::size_t candidate = last;
    last = at + 1;
    if (candidate == 0 || at + 1 - candidate > kMaxDistance) {
      return {};
    }
    const std::size_t from = candidate - 1;
    const std::size_t limit = std::min(kMaxMatch, bytes.size() - at);
    std::size_t length = 0;
    while (length < limit && bytes[from + length] == bytes[at + length]) {
      ++length;
    }
    return {length, at - from};
  }

  /// Least significant bit first.
  void bits(std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      current_ |= ((value >> static_cast<unsigned>(i)) & 1U)
                  << static_cast<unsigned>(used_);
      if (++used_ == 8) {
        result_ += static_cast<char>(current_);
        current_ = 0;
        used_ = 0;
      }
    }
  }
  /// Codes are written most significant bit first.
  void code(std::uint32_t value, int count) {
    for (int i = count - 1; i >= 0; --i) {
      bits((value >> static_cast<unsigned>(i)) & 1U, 1);
    }
  }
  void symbol(std::uint32_t value) {
    if (value < 144) {
      code(0x30 + value, 8);
    } else if (value < 256) {
      code(0x190 + value - 144, 9);
    } else if (value < 280) {
      code(value - 256, 7);
    } else {
      code(0xc0 + value - 280, 8);
    }
  }
  void literal(unsigned char byte) { symbol(byte); }

  /// Lengths and distances are coded as a class and the offset in the class;
  /// each class of `2 << extra` or `4 << extra` values has `extra` bits.
  void length_and_distance(const Match& match) {
    if (match.length == kMaxMatch) {
      symbol(285);
    } else {
      const auto length = static_cast<std::uint32_t>(match.length - 3);
      int extra = 0;
      while ((length >> static_cast<unsigned>(extra)) >= 8) {
        ++extra;
      }
      symbol(
          257 + static_cast<std::uint32_t>(extra) * 4 +
          (length >> static_cast<unsigned>(extra)));
      bits(length, extra);
    }
    const auto distance = static_cast<std::uint32_t>(match.distance - 1);
    int extra = 0;
    while ((distance >> static_cast<unsigned>(extra)) >= 4) {
      ++extra;
    }
    code(
        static_cast<std::uint32_t>(extra) * 2 +
            (distance >> static_cast<unsigned>(extra)),
        5);
    bits(distance, extra);
  }

  std::string result_;
  std::uint32_t current_ = 0;
  int used_ = 0;
  std::array<std::size_t, kHashSize> last_{};  // Position + 1; 0: none.
};

// Each row begins with the number of its filter: 1 subtracts the pixel to the
// left.
std::string filtered_rows(const PixelLayout& layout, std::string_view pixels) {
  const auto channels = static_cast<std::size_t>(layout.channels);
  const auto row_bytes = static_cast<std::size_t>(layout.width) * channels;
  std::string rows;
  rows.reserve(pixels.size() + static_cast<std::size_t>(layout.height));
  for (std::size_t begin = 0; begin < pixels.size(); begin += row_bytes) {
    rows += '\1';
    for (std::size_t i = 0; i < row_bytes; ++i) {
      const char left = i < channels ? '\0' : pixels[begin + i - channels];
      rows += static_cast<char>(pixels[begin + i] - left);
    }
  }
  return rows;
}

}  // namespace

std::string encode_png(const PixelLayout& layout, std::string_view pixels) {
  const char color =
      layout.channels == 1 ? '\0' : (layout.channels == 3 ? '\2' : '\6');
  std::string header = big_endian(static_cast<std::uint32_t>(layout.width)) +
                       big_endian(static_cast<std::uint32_t>(layout.height));
  header += '\10';  // Bits per channel.
  header += color;
  header += std::string(3, '\0');  // Compression, filter, not interlaced.
  const std::string rows = filtered_rows(layout, pixels);
  const auto deflate = std::make_unique<Deflate>();
  const std::string data =
      "\x78\x01" + deflate->compress(rows) + big_endian(adler32(rows));
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) +
         png_chunk("IDAT", data) + png_chunk("IEND", "");
}

}  // namespace accelerate
