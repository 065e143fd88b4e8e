// SPDX-License-Identifier: Apache-2.0
// The element types and shapes of the XLA device. Does not use LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace accelerate::xla {

enum class ElementType : std::uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u8,
  pred,  ///< A boolean, one byte in memory.
  u32,   ///< Random bits; no tensor has this type.
  u64,   ///< States of random generators; no tensor has this type.
};

using Shape = std::vector<std::int64_t>;

/// Returns the name of the type in StableHLO, for example `bf16` or `ui8`.
std::string_view name_of(ElementType type);
/// Returns the size of one element in bytes, in host memory and device memory.
std::size_t size_of(ElementType type);
bool is_floating(ElementType type);
std::int64_t element_count(const Shape& shape);

}  // namespace accelerate::xla
