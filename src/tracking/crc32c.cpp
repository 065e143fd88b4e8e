// SPDX-License-Identifier: Apache-2.0
#include "tracking/crc32c.h"

#include <array>
#include <cstddef>

namespace accelerate {
namespace {

using CrcTable = std::array<std::uint32_t, 256>;

constexpr CrcTable crc_table(std::uint32_t reversed_polynomial) {
  CrcTable table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? reversed_polynomial : 0);
    }
    table[byte] = value;
  }
  return table;
}

constexpr CrcTable kCastagnoli = crc_table(0x82f63b78);
constexpr CrcTable kIeee = crc_table(0xedb88320);

std::uint32_t checksum_with(const CrcTable& table, std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc = (crc >> 8U) ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xffU];
  }
  return ~crc;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  return checksum_with(kCastagnoli, bytes);
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

std::uint32_t crc32(std::string_view bytes) {
  return checksum_with(kIeee, bytes);
}

}  // namespace accelerate
