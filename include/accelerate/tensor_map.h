// SPDX-License-Identifier: Apache-2.0
// Tensors by name: the input to models, and the samples in most datasets.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace accelerate {

using TensorMap = std::map<std::string, at::Tensor>;

}  // namespace accelerate
