// SPDX-License-Identifier: Apache-2.0
// The protocol between the launcher's store and its clients.
//
// All numbers are little-endian. After connecting:
//
//   1. the server sends `kMagic`, a nonce of 32 bytes, and the ID of its run
//      (a u8 length and the bytes);
//   2. the client sends its own nonce, its `Hello`, and a proof that it knows
//      the job's secret. A client without a secret sends an all-zero proof and
//      closes the connection, so that the server can report this client;
//   3. the server sends one frame, which proves that the server knows the
//      secret: `Reply::ok`, or the reason why it rejects this client. If the
//      proof is wrong, the server sends `kWrongProof` and closes the
//      connection.
//
// A server with too many clients that have not authenticated closes some of
// their connections. A client whose connection closes before step 3 tries
// again.
//
// From then on, the client sends one request frame at a time and reads one
// reply frame for each request. A frame is a u32 length, a u8 code, a payload
// and a tag of 16 bytes; the length counts everything after it. The payload is
// encrypted, and the tag authenticates the whole frame and its position in the
// stream: see store_session.h. A string in a payload is a u32 length and the
// bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate::store {

/// The last byte is the version of the protocol.
constexpr std::string_view kMagic = "ACCSTOR2";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kProofBytes = 32;
/// The size in bytes of the length field at the start of a frame; a u8 code
/// follows.
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kHeaderBytes = kLengthBytes + 1;
constexpr std::size_t kTagBytes = 16;
/// Sent instead of the header of a frame. It cannot be confused with a header,
/// because the length of a frame is never 0.
constexpr std::string_view kWrongProof{"\0\0\0\0\1", kHeaderBytes};
/// The maximum size of a frame's code and payload together, in bytes. Larger
/// frames are rejected, so that a client cannot make the server allocate all
/// memory with one frame.
constexpr std::size_t kMaxFrame = std::size_t{64} << 20;

/// The requests. The comments list the payload of the request → the payload of
/// the reply.
enum class Request : std::uint8_t {
  set = 1,             // key, value →
  get,                 // key, u64 timeout in ms → value; waits for the key
  add,                 // key, i64 → i64
  compare_set,         // key, expected, desired → value
  check,               // u32 count, keys → u8
  wait,                // u64 timeout in ms, u32 count, keys →
  erase,               // key → u8
  count,               // → i64
  append,              // key, value →
  status,              // text: what this rank is doing, for humans
  fail,                // text: the exception that will end this rank
  disconnected_ranks,  // → u32 count, u32 ranks whose connections have closed
  exchange,            // sent only by machines; see launch/machine_events.h
  disconnect,          // no reply; the client closes the connection on purpose
};

enum class Reply : std::uint8_t {
  ok = 0,
  timeout = 1,  // text: the first missing key
  aborted = 2,  // text: why the launcher stops the job
  refused = 3,  // text: what is wrong with the request
  stale = 4,    // the client belongs to an earlier generation of workers
};

/// The kind of client that opened the connection.
enum class Role : std::uint8_t { worker = 1, machine = 2 };

/// How a client identifies itself.
struct Hello {
  Role role = Role::worker;
  std::uint32_t rank = 0;
  std::uint32_t generation = 0;
};

constexpr std::size_t kHelloBytes = kNonceBytes + 1 + 4 + 4 + kProofBytes;

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

/// Reads numbers and strings from a payload. `ok()` becomes false when the
/// payload ends too early.
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
  /// Returns whether the whole payload was read.
  bool done() const { return ok_ && text_.empty(); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

}  // namespace accelerate::store
