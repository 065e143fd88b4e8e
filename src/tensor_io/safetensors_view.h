// SPDX-License-Identifier: Apache-2.0
// Creates tensors that are views of the entries in a safetensors file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/safetensors_header.h"

namespace accelerate {

/// Returns the element type of an entry. Throws an `UnsupportedError` that
/// names `path` if LibTorch has no such type.
c10::ScalarType dtype_of(
    const SafetensorsEntry& entry, const std::string& path);

/// Returns the shape of an entry in LibTorch, which counts a pair of F4
/// elements as one element. Throws an `UnsupportedError` that names `path` if
/// rows have an odd number of F4 elements.
std::vector<std::int64_t> shape_of(
    const SafetensorsEntry& entry, const std::string& path);

/// Returns a tensor that is a view of an entry's bytes and keeps `owner` alive.
/// If the bytes are not aligned for their element type, returns a copy instead.
at::Tensor view_of(
    const SafetensorsEntry& entry,
    std::byte* data,
    std::shared_ptr<const void> owner,
    const std::string& path);

}  // namespace accelerate
