// SPDX-License-Identifier: Apache-2.0
// What the launcher's store and its clients say to each other.
//
// All numbers are little-endian. After connecting:
//
//   1. the server sends `kMagic` and a nonce of 32 bytes;
//   2. the client sends a `Hello`: its own nonce, who it is, and an HMAC of
//      both nonces and that under the job's secret;
//   3. the server answers with one frame: `Reply::ok` and its own HMAC, or a
//      refusal, after which it closes.
//
// From then on the client sends one request frame at a time and reads one
// reply frame: u32 length, u8 code, payload. Strings in a payload are a u32
// length and bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate::store {

constexpr std::string_view kMagic = "ACCSTOR1";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = 32;
/// A key or value beyond this is refused, so that no client can make the
/// server take all memory with one frame.
constexpr std::size_t kMaxFrame = std::size_t{64} << 20;

enum class Request : std::uint8_t {
  set = 1,      // key, value →
  get,          // key, u64 timeout in ms → value; waits for the key
  add,          // key, i64 → i64
  compare_set,  // key, expected, desired → value
  check,        // u32 count, keys → u8
  wait,         // u64 timeout in ms, u32 count, keys →
  erase,        // key → u8
  count,        // → i64
  append,       // key, value →
  status,       // text: what this rank is doing, for people
  fail,         // text: the exception this rank will die of
  departed,     // → u32 count, u32 ranks whose connections are gone
  exchange,     // machines only: see launch/rendezvous
  bye,          // → ; the connection ends on purpose
};

enum class Reply : std::uint8_t {
  ok = 0,
  timeout = 1,  // text: which keys are missing
  aborted = 2,  // text: why the job ends
  refused = 3,  // text: what is wrong with the request
  stale = 4,    // the client belongs to an earlier start of the workers
};

/// Who a connection speaks for.
enum class Role : std::uint8_t { worker = 1, machine = 2 };

/// What a client says about itself.
struct Hello {
  Role role = Role::worker;
  std::uint32_t rank = 0;
  std::uint32_t generation = 0;
};

constexpr std::size_t kHelloBytes = kNonceBytes + 1 + 4 + 4 + kMacBytes;

/// Appends numbers and strings to a payload.
class Writer {
 public:
  template <typename Number>
  Writer& number(Number value) {
    char bytes[sizeof(Number)];
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      bytes[i] = static_cast<char>(
          static_cast<std::uint64_t>(value) >> (8 * i) & 0xffU);
    }
    text_.append(bytes, sizeof(Number));
    return *this;
  }
  Writer& string(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    text_.append(value);
    return *this;
  }
  Writer& raw(std::string_view value) {
    text_.append(value);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Takes them off again; `ok()` turns false on the first one that is cut off.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  template <typename Number>
  Number number() {
    if (text_.size() < sizeof(Number)) {
      ok_ = false;
      return Number{};
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text_[i]))
               << (8 * i);
    }
    text_.remove_prefix(sizeof(Number));
    return static_cast<Number>(value);
  }
  std::string_view string() { return raw(number<std::uint32_t>()); }
  std::string_view raw(std::size_t length) {
    if (!ok_ || text_.size() < length) {
      ok_ = false;
      return {};
    }
    const std::string_view part = text_.substr(0, length);
    text_.remove_prefix(length);
    return part;
  }
  std::string_view rest() const { return text_; }
  bool ok() const { return ok_; }
  /// Everything was read and nothing is left over.
  bool done() const { return ok_ && text_.empty(); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

/// The text both sides sign.
inline std::string signed_text(
    std::string_view side,
    std::string_view server_nonce,
    std::string_view client_nonce,
    const Hello& hello) {
  return Writer()
      .string(side)
      .raw(server_nonce)
      .raw(client_nonce)
      .number(static_cast<std::uint8_t>(hello.role))
      .number(hello.rank)
      .number(hello.generation)
      .take();
}

inline std::string frame(std::uint8_t code, std::string_view payload) {
  return Writer()
      .number(static_cast<std::uint32_t>(payload.size() + 1))
      .number(code)
      .raw(payload)
      .take();
}

}  // namespace accelerate::store
