// SPDX-License-Identifier: Apache-2.0
// Encodes tensors as a safetensors file and writes the bytes to any
// destination.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "accelerate/tensor_map.h"

namespace accelerate {

/// Encodes the tensors as a safetensors file and passes its bytes to `write`,
/// in order and piece by piece. The rules for tensors and metadata are
/// documented at `save_safetensors`.
void write_safetensors(
    const TensorMap& tensors,
    std::map<std::string, std::string> metadata,
    const std::function<void(std::string_view)>& write);

}  // namespace accelerate
