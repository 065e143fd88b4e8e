// SPDX-License-Identifier: Apache-2.0
// The bytes of a safetensors file, wherever they go.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "accelerate/tensor_map.h"

namespace accelerate {

/// Hands the bytes of a file to `write`, piece by piece and in order. What
/// `save_safetensors` says of tensors and metadata holds here.
void write_safetensors(
    const TensorMap& tensors,
    std::map<std::string, std::string> metadata,
    const std::function<void(std::string_view)>& write);

}  // namespace accelerate
