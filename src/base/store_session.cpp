// SPDX-License-Identifier: Apache-2.0
#include "base/store_session.h"

#include <array>

#include <openssl/evp.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::store {
namespace {

constexpr std::size_t kGcmNonceBytes = 12;

void check_openssl(int result) {
  if (result != 1) {
    throw InternalError("OpenSSL failed to encrypt or decrypt a frame");
  }
}

const unsigned char* input_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* output_of(char* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

std::string info_for(std::string_view purpose, const Handshake& handshake) {
  return Writer()
      .raw(kMagic)
      .string(purpose)
      .string(handshake.run_id)
      .number(static_cast<std::uint8_t>(handshake.hello.role))
      .number(handshake.hello.rank)
      .number(handshake.hello.generation)
      .take();
}

}  // namespace

SessionKeys derive_keys(std::string_view secret, const Handshake& handshake) {
  const std::string salt =
      str_cat(handshake.server_nonce, handshake.client_nonce);
  const auto key_for = [&](std::string_view purpose) {
    return hkdf_sha256(secret, salt, info_for(purpose, handshake));
  };
  return {key_for("client proof"), key_for("requests"), key_for("replies")};
}

void FrameCipher::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

FrameCipher::FrameCipher(const Digest& key, bool seals)
    : context_(EVP_CIPHER_CTX_new()) {
  check_openssl(EVP_CipherInit_ex(
      context_.get(),
      EVP_aes_256_gcm(),
      nullptr,
      key.data(),
      nullptr,
      seals ? 1 : 0));
}

FrameCipher::FrameCipher(FrameCipher&&) noexcept = default;
FrameCipher& FrameCipher::operator=(FrameCipher&&) noexcept = default;
FrameCipher::~FrameCipher() = default;

evp_cipher_ctx_st* FrameCipher::next_frame(std::string_view header) {
  std::array<unsigned char, kGcmNonceBytes> nonce{};
  const std::uint64_t position = position_++;
  for (std::size_t i = 0; i < sizeof(position); ++i) {
    nonce[i] = static_cast<unsigned char>(position >> (8 * i) & 0xffU);
  }
  // Sets only the nonce; the cipher, the key and the direction stay the same.
  check_openssl(EVP_CipherInit_ex(
      context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1));
  int length = 0;
  check_openssl(EVP_CipherUpdate(
      context_.get(),
      nullptr,
      &length,
      input_of(header),
      static_cast<int>(header.size())));
  return context_.get();
}

std::string FrameSealer::seal(std::uint8_t code, std::string_view payload) {
  std::string frame =
      Writer()
          .number(static_cast<std::uint32_t>(1 + payload.size() + kTagBytes))
          .number(code)
          .take();
  EVP_CIPHER_CTX* context = next_frame(frame);
  frame.resize(kHeaderBytes + payload.size() + kTagBytes);
  char* const body = frame.data() + kHeaderBytes;
  int length = 0;
  check_openssl(EVP_CipherUpdate(
      context,
      output_of(body),
      &length,
      input_of(payload),
      static_cast<int>(payload.size())));
  check_openssl(
      EVP_CipherFinal_ex(context, output_of(body + payload.size()), &length));
  check_openssl(EVP_CIPHER_CTX_ctrl(
      context,
      EVP_CTRL_AEAD_GET_TAG,
      static_cast<int>(kTagBytes),
      body + payload.size()));
  return frame;
}

std::optional<std::string> FrameOpener::open(
    std::string_view header, std::string body) {
  if (is_broken_ || body.size() < kTagBytes) {
    is_broken_ = true;
    return std::nullopt;
  }
  const std::size_t size = body.size() - kTagBytes;
  EVP_CIPHER_CTX* context = next_frame(header);
  check_openssl(EVP_CIPHER_CTX_ctrl(
      context,
      EVP_CTRL_AEAD_SET_TAG,
      static_cast<int>(kTagBytes),
      body.data() + size));
  int length = 0;
  check_openssl(EVP_CipherUpdate(
      context,
      output_of(body.data()),
      &length,
      input_of(body),
      static_cast<int>(size)));
  if (EVP_CipherFinal_ex(context, output_of(body.data() + size), &length) !=
      1) {
    is_broken_ = true;
    return std::nullopt;
  }
  body.resize(size);
  return body;
}

std::optional<FrameHeader> read_header(std::string_view bytes) {
  Reader reader(bytes);
  const std::size_t length = reader.number<std::uint32_t>();
  const auto code = reader.number<std::uint8_t>();
  if (!reader.ok() || length < 1 + kTagBytes ||
      length > kMaxFrame + kTagBytes) {
    return std::nullopt;
  }
  return FrameHeader{length - 1, code};
}

}  // namespace accelerate::store
