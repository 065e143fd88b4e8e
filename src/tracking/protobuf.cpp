// SPDX-License-Identifier: Apache-2.0
#include "tracking/protobuf.h"

#include <bit>
#include <cstring>

namespace accelerate {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kLengthPrefixed = 2, kFixed32 = 5 };

std::optional<std::uint64_t> read_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  return std::nullopt;
}

// Files are little-endian, as are all machines that LibTorch supports.
std::optional<std::uint64_t> read_fixed(
    std::string_view& rest, std::size_t size) {
  static_assert(std::endian::native == std::endian::little);
  if (rest.size() < size) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  std::memcpy(&value, rest.data(), size);
  rest.remove_prefix(size);
  return value;
}

}  // namespace

void ProtoMessage::tag(int field, int wire_type) {
  varint(
      static_cast<std::uint64_t>(field) << 3U |
      static_cast<std::uint64_t>(wire_type));
}

void ProtoMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) {
    bytes_ += static_cast<char>(value | 0x80U);
  }
  bytes_ += static_cast<char>(value);
}

template <typename T>
void ProtoMessage::fixed(T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  bytes_.append(bytes, sizeof(T));
}

ProtoMessage& ProtoMessage::integer(int field, std::int64_t value) {
  tag(field, kVarint);
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::real(int field, double value) {
  tag(field, kFixed64);
  fixed(value);
  return *this;
}

ProtoMessage& ProtoMessage::single(int field, float value) {
  tag(field, kFixed32);
  fixed(value);
  return *this;
}

ProtoMessage& ProtoMessage::text(int field, std::string_view value) {
  tag(field, kLengthPrefixed);
  varint(value.size());
  bytes_ += value;
  return *this;
}

ProtoMessage& ProtoMessage::message(int field, const ProtoMessage& value) {
  return text(field, value.bytes());
}

ProtoMessage& ProtoMessage::reals(
    int field, const std::vector<double>& values) {
  tag(field, kLengthPrefixed);
  varint(values.size() * sizeof(double));
  for (const double value : values) {
    fixed(value);
  }
  return *this;
}

double ProtoField::real() const {
  return std::bit_cast<double>(integer);
}

float ProtoField::single() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(integer));
}

std::optional<ProtoField> read_proto_field(std::string_view& rest) {
  if (rest.empty()) {
    return std::nullopt;
  }
  std::string_view input = rest;
  const auto tag = read_varint(input);
  if (!tag) {
    return std::nullopt;
  }
  ProtoField field;
  field.number = static_cast<int>(*tag >> 3U);
  const auto wire_type = *tag & 7U;
  std::optional<std::uint64_t> value;
  if (wire_type == kVarint || wire_type == kLengthPrefixed) {
    value = read_varint(input);
  } else if (wire_type == kFixed64 || wire_type == kFixed32) {
    value = read_fixed(input, wire_type == kFixed64 ? 8 : 4);
  }
  if (!value) {
    return std::nullopt;
  }
  field.integer = *value;
  if (wire_type == kLengthPrefixed) {
    if (*value > input.size()) {
      return std::nullopt;
    }
    field.text = input.substr(0, *value);
    input.remove_prefix(*value);
  }
  rest = input;
  return field;
}

}  // namespace accelerate
