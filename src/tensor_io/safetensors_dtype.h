// SPDX-License-Identifier: Apache-2.0
// Maps LibTorch's element types to safetensors names and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

namespace accelerate {

/// Returns the LibTorch type for a safetensors dtype name, such as `BF16`;
/// empty if LibTorch has no such type.
std::optional<c10::ScalarType> dtype_from_safetensors(std::string_view name);

/// Returns the safetensors name of a LibTorch type; empty if the type has no
/// such name.
std::optional<std::string_view> safetensors_name(c10::ScalarType dtype);

}  // namespace accelerate
