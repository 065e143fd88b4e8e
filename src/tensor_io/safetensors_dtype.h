// SPDX-License-Identifier: Apache-2.0
// LibTorch's element types under the names of the safetensors format.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

namespace accelerate {

/// Nothing for types of the format that LibTorch does not have.
std::optional<c10::ScalarType> dtype_from_safetensors(std::string_view name);

/// Nothing for types that the format does not have.
std::optional<std::string_view> safetensors_name(c10::ScalarType dtype);

}  // namespace accelerate
