// SPDX-License-Identifier: Apache-2.0
// An entry of a safetensors file as a tensor.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/safetensors_header.h"

namespace accelerate {

/// The type of an entry. Throws `UnsupportedError` naming `path` when LibTorch
/// has no such type.
c10::ScalarType dtype_of(
    const SafetensorsEntry& entry, const std::string& path);

/// A tensor that looks at an entry's bytes, and keeps `owner` as long as it
/// lives; a copy when they are not aligned to their elements.
at::Tensor view_of(
    const SafetensorsEntry& entry,
    std::byte* data,
    std::shared_ptr<const void> owner,
    const std::string& path);

}  // namespace accelerate
