// SPDX-License-Identifier: Apache-2.0
// The keys and the encrypted frames of one connection to the launcher's store.
//
// Both ends derive the keys from the job's secret and from everything that they
// sent in the handshake, so every connection has its own keys. If an attacker
// changes the handshake, the two ends derive different keys. Each direction has
// its own key.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/hmac.h"
#include "base/store_protocol.h"

struct evp_cipher_ctx_st;

namespace accelerate::store {

/// What both ends of a connection sent before they had keys.
struct Handshake {
  std::string run_id;
  std::string server_nonce;
  std::string client_nonce;
  Hello hello;
};

struct SessionKeys {
  Digest client_proof;
  Digest requests;
  Digest replies;
};

/// Derives the keys of both directions. `secret` must not be empty.
SessionKeys derive_keys(std::string_view secret, const Handshake& handshake);

/// AES-256-GCM with one key and a counter. The nonce of a frame is its position
/// in the stream, which is not sent. The other end therefore detects any frame
/// that was modified, forged, replayed, dropped or reordered.
class FrameCipher {
 public:
  FrameCipher(FrameCipher&&) noexcept;
  FrameCipher& operator=(FrameCipher&&) noexcept;
  ~FrameCipher();

 protected:
  FrameCipher(const Digest& key, bool seals);

  evp_cipher_ctx_st* next_frame(std::string_view header);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  std::uint64_t position_ = 0;
};

/// Creates the frames of one direction. Not thread-safe.
class FrameSealer : public FrameCipher {
 public:
  explicit FrameSealer(const Digest& key) : FrameCipher(key, true) {}

  /// Returns the bytes to send. Frames must be sent in the order of the calls.
  std::string seal(std::uint8_t code, std::string_view payload);
};

/// Reads the frames of one direction. Not thread-safe.
class FrameOpener : public FrameCipher {
 public:
  explicit FrameOpener(const Digest& key) : FrameCipher(key, false) {}

  /// Returns the payload of the next frame, or nothing if the other end did not
  /// send this frame at this position. After such a failure, later frames
  /// cannot be opened either. `header` has `kHeaderBytes` bytes; `body` is the
  /// rest of the frame.
  std::optional<std::string> open(std::string_view header, std::string body);

 private:
  bool is_broken_ = false;
};

/// The header of a frame, which is not encrypted.
struct FrameHeader {
  std::size_t body_bytes = 0;  ///< The payload and the tag.
  std::uint8_t code = 0;
};

/// Reads a header of `kHeaderBytes` bytes. Returns nothing if no valid frame
/// has this header.
std::optional<FrameHeader> read_header(std::string_view bytes);

}  // namespace accelerate::store
