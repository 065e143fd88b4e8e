// SPDX-License-Identifier: Apache-2.0
// The checksums of TensorBoard's event files, PNG files and W&B's files.
#pragma once

#include <cstdint>
#include <string_view>

namespace accelerate {

/// Returns the CRC-32C (Castagnoli) checksum.
std::uint32_t crc32c(std::string_view bytes);

/// Returns the CRC-32C checksum as event files store it: rotated, plus a
/// constant. A plain checksum would be weak for data that itself contains
/// checksums.
std::uint32_t masked_crc32c(std::string_view bytes);

/// Returns the CRC-32 checksum, which PNG files and W&B's files contain.
std::uint32_t crc32(std::string_view bytes);

}  // namespace accelerate
