// SPDX-License-Identifier: Apache-2.0
// Tensors by name: what models take and most datasets give.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace accelerate {

using TensorMap = std::map<std::string, at::Tensor>;

}  // namespace accelerate
