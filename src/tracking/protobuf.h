// SPDX-License-Identifier: Apache-2.0
// The part of the Protocol Buffers encoding that the files of TensorBoard and
// W&B need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// An encoded message. Fields may be added in any order.
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
  /// An integer, or the bits of a fixed-size value.
  std::uint64_t integer = 0;
  std::string_view text;  ///< The bytes of a text, message or packed list.

  double real() const;
  float single() const;
};

/// Reads the next field and removes it from `rest`. Returns nothing if `rest`
/// is empty or malformed. Malformed input is not removed from `rest`.
std::optional<ProtoField> read_proto_field(std::string_view& rest);

}  // namespace accelerate
