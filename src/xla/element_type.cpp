// SPDX-License-Identifier: Apache-2.0
#include "xla/element_type.h"

#include <array>

namespace accelerate::xla {
namespace {

struct TypeFacts {
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enumerators.
constexpr std::array<TypeFacts, 12> kFacts{{
    {"f32", 4},
    {"f64", 8},
    {"f16", 2},
    {"bf16", 2},
    {"i64", 8},
    {"i32", 4},
    {"i16", 2},
    {"i8", 1},
    {"ui8", 1},
    {"i1", 1},
    {"ui32", 4},
    {"ui64", 8},
}};

}  // namespace

std::string_view name_of(ElementType type) {
  return kFacts[static_cast<std::size_t>(type)].name;
}

std::size_t size_of(ElementType type) {
  return kFacts[static_cast<std::size_t>(type)].bytes;
}

bool is_floating(ElementType type) {
  return type <= ElementType::bf16;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return count;
}

}  // namespace accelerate::xla
