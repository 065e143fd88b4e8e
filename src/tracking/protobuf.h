// SPDX-License-Identifier: Apache-2.0
// The part of the Protocol Buffers encoding that event files need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// An encoded message. Fields are added in any order.
class ProtoMessage {
 public:
  ProtoMessage& integer(int field, std::int64_t value);
  ProtoMessage& real(int field, double value);   ///< `double`
  ProtoMessage& single(int field, float value);  ///< `float`
  ProtoMessage& text(int field, std::string_view value);
  ProtoMessage& message(int field, const ProtoMessage& value);
  ProtoMessage& reals(int field, const std::vector<double>& values);

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type);
  void varint(std::uint64_t value);
  template <typename T>
  void fixed(T value);

  std::string bytes_;
};

/// One field of an encoded message.
struct ProtoField {
  int number = 0;
  std::uint64_t integer = 0;  ///< Also the bits of fixed-size values.
  std::string_view text;      ///< Of texts, messages and packed values.

  double real() const;
  float single() const;
};

/// Reads the next field and removes it from `rest`. Returns nothing at the end
/// and for malformed input, which leaves `rest` non-empty.
std::optional<ProtoField> read_proto_field(std::string_view& rest);

}  // namespace accelerate
