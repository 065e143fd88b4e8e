// SPDX-License-Identifier: Apache-2.0
#include "base/hmac.h"

#include <cerrno>

#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void check_digest(bool succeeded) {
  if (!succeeded) {
    throw InternalError("OpenSSL failed to compute a digest");
  }
}

}  // namespace

Digest hmac_sha256(std::string_view key, std::string_view message) {
  Digest digest{};
  unsigned length = 0;
  const auto* result = HMAC(
      EVP_sha256(),
      key.data(),
      static_cast<int>(key.size()),
      bytes_of(message),
      message.size(),
      digest.data(),
      &length);
  if (result == nullptr || length != digest.size()) {
    throw InternalError("OpenSSL failed to compute an HMAC");
  }
  return digest;
}

Digest hkdf_sha256(
    std::string_view secret, std::string_view salt, std::string_view info) {
  const Digest extracted = hmac_sha256(salt, secret);
  // One block of the HKDF expansion is enough, because a key has the length of
  // one block.
  return hmac_sha256(as_text(extracted), str_cat(info, '\1'));
}

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string sha256_hex(std::string_view content) {
  StreamDigest digest(StreamDigest::Algorithm::sha256);
  digest.add(content);
  return digest.hex();
}

struct StreamDigest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

StreamDigest::StreamDigest(Algorithm algorithm)
    : state_(std::make_unique<State>()) {
  const EVP_MD* md = algorithm == Algorithm::sha1 ? EVP_sha1() : EVP_sha256();
  check_digest(
      state_->context != nullptr &&
      EVP_DigestInit_ex(state_->context, md, nullptr) == 1);
}

StreamDigest::~StreamDigest() = default;

void StreamDigest::add(std::string_view bytes) {
  check_digest(
      EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string StreamDigest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  check_digest(
      EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1);
  return to_hex({reinterpret_cast<const char*>(digest.data()), length});
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got < 0 && errno != EINTR) {
      throw IoError(str_cat("cannot get random bytes: ", errno_text(errno)));
    }
    done += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

}  // namespace accelerate
