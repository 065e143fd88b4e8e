// SPDX-License-Identifier: Apache-2.0
#include "tracking/event_file.h"

#include <cmath>
#include <cstring>

#include "tracking/crc32c.h"
#include "tracking/protobuf.h"

namespace accelerate {
namespace {

// The length (8 bytes) and its checksum (4 bytes) come before the message, the
// checksum of the message after it.
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kFooterBytes = 4;

template <typename T>
std::string raw_bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <typename T>
T from_raw_bytes(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

}  // namespace

std::string framed_event(std::string_view message) {
  std::string frame = raw_bytes<std::uint64_t>(message.size());
  frame += raw_bytes(masked_crc32c(frame));
  frame += message;
  frame += raw_bytes(masked_crc32c(message));
  return frame;
}

std::optional<std::string_view> read_framed_event(std::string_view& rest) {
  if (rest.size() < kHeaderBytes + kFooterBytes) {
    return std::nullopt;
  }
  const std::string_view length = rest.substr(0, 8);
  const auto size = from_raw_bytes<std::uint64_t>(length);
  if (from_raw_bytes<std::uint32_t>(rest.substr(8)) != masked_crc32c(length) ||
      size > rest.size() - kHeaderBytes - kFooterBytes) {
    return std::nullopt;
  }
  const std::string_view message = rest.substr(kHeaderBytes, size);
  if (from_raw_bytes<std::uint32_t>(rest.substr(kHeaderBytes + size)) !=
      masked_crc32c(message)) {
    return std::nullopt;
  }
  rest.remove_prefix(kHeaderBytes + size + kFooterBytes);
  return message;
}

std::int64_t event_time_us(std::string_view event) {
  while (const auto field = read_proto_field(event)) {
    if (field->number == 1) {
      return std::llround(field->real() * 1e6);
    }
  }
  return 0;
}

}  // namespace accelerate
