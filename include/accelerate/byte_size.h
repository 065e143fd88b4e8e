// SPDX-License-Identifier: Apache-2.0
// A size in bytes, written as a number or as text: 5000000, "5GB", "512MiB".
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "accelerate/export.h"

namespace accelerate {

/// A size in bytes. Converts from numbers and from text, so that an option can
/// be written as `{.max_shard_size = "5GB"}`.
///
/// Units are KB, MB, GB and TB (powers of 1000) and KiB, MiB, GiB and TiB
/// (powers of 1024). Throws `ArgumentError` for any other unit, including `Gb`,
/// which means gigabits.
class ACCELERATE_API ByteSize {
 public:
  template <std::unsigned_integral Number>
  ByteSize(Number bytes) : bytes_(bytes) {}
  template <std::signed_integral Number>
  ByteSize(Number bytes) : bytes_(checked(bytes)) {}
  ByteSize(std::string_view text);
  ByteSize(const char* text) : ByteSize(std::string_view(text)) {}
  ByteSize(const std::string& text) : ByteSize(std::string_view(text)) {}

  std::uint64_t bytes() const { return bytes_; }

 private:
  static std::uint64_t checked(std::int64_t bytes);

  std::uint64_t bytes_ = 0;
};

}  // namespace accelerate
