// SPDX-License-Identifier: Apache-2.0
// Proofs of a shared secret, with OpenSSL's HMAC.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace accelerate {

using Digest = std::array<std::uint8_t, 32>;

/// HMAC-SHA256.
Digest hmac_sha256(std::string_view key, std::string_view message);

/// SHA-256, as lower-case hexadecimal digits.
std::string sha256_hex(std::string_view content);

/// Compares in a time that does not depend on where the two differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// `count` bytes nobody can guess.
std::string random_bytes(std::size_t count);
std::string to_hex(std::string_view bytes);

}  // namespace accelerate
