// SPDX-License-Identifier: Apache-2.0
#include "tensor_io/safetensors_dtype.h"

#include <algorithm>
#include <iterator>

namespace accelerate {
namespace {

struct Pair {
  std::string_view name;
  c10::ScalarType dtype;
};
constexpr Pair kPairs[] = {
    {"BOOL", c10::ScalarType::Bool},
    {"U8", c10::ScalarType::Byte},
    {"I8", c10::ScalarType::Char},
    {"I16", c10::ScalarType::Short},
    {"U16", c10::ScalarType::UInt16},
    {"F16", c10::ScalarType::Half},
    {"BF16", c10::ScalarType::BFloat16},
    {"I32", c10::ScalarType::Int},
    {"U32", c10::ScalarType::UInt32},
    {"F32", c10::ScalarType::Float},
    {"C64", c10::ScalarType::ComplexFloat},
    {"F64", c10::ScalarType::Double},
    {"I64", c10::ScalarType::Long},
    {"U64", c10::ScalarType::UInt64},
    {"F8_E4M3", c10::ScalarType::Float8_e4m3fn},
    {"F8_E5M2", c10::ScalarType::Float8_e5m2},
    {"F8_E8M0", c10::ScalarType::Float8_e8m0fnu},
    {"F8_E4M3FNUZ", c10::ScalarType::Float8_e4m3fnuz},
    {"F8_E5M2FNUZ", c10::ScalarType::Float8_e5m2fnuz},
    // LibTorch counts pairs of elements, the format counts elements.
    {"F4", c10::ScalarType::Float4_e2m1fn_x2},
};

}  // namespace

std::optional<c10::ScalarType> dtype_from_safetensors(std::string_view name) {
  const auto* found = std::ranges::find(kPairs, name, &Pair::name);
  return found == std::end(kPairs) ? std::nullopt : std::optional(found->dtype);
}

std::optional<std::string_view> safetensors_name(c10::ScalarType dtype) {
  const auto* found = std::ranges::find(kPairs, dtype, &Pair::dtype);
  return found == std::end(kPairs) ? std::nullopt : std::optional(found->name);
}

}  // namespace accelerate
