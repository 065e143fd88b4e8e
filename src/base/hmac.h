// SPDX-License-Identifier: Apache-2.0
// HMAC, HKDF, SHA-256 and random bytes, to prove knowledge of a shared secret
// and to derive keys from it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace accelerate {

using Digest = std::array<std::uint8_t, 32>;

/// Returns the HMAC-SHA256 of `message`.
Digest hmac_sha256(std::string_view key, std::string_view message);

/// Derives a key for one purpose from a secret, with HKDF-SHA256 (RFC 5869).
/// `salt` is random and may be public; different values of `info` give
/// independent keys.
Digest hkdf_sha256(
    std::string_view secret, std::string_view salt, std::string_view info);

/// Returns a view of the digest's bytes.
std::string_view as_text(const Digest& digest);

/// Returns the SHA-256 of `content` in lower-case hexadecimal.
std::string sha256_hex(std::string_view content);

/// Computes a digest of bytes that arrive in pieces. SHA-1 is only for formats
/// that use it, such as git's.
class StreamDigest {
 public:
  enum class Algorithm { sha1, sha256 };

  explicit StreamDigest(Algorithm algorithm);
  StreamDigest(const StreamDigest&) = delete;
  StreamDigest& operator=(const StreamDigest&) = delete;
  ~StreamDigest();

  void add(std::string_view bytes);
  /// Returns the digest in lower-case hexadecimal. May be called only once.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Compares two byte strings in constant time, so that timing does not reveal
/// where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// Returns `count` cryptographically secure random bytes.
std::string random_bytes(std::size_t count);
std::string to_hex(std::string_view bytes);

}  // namespace accelerate
