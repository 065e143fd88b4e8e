// SPDX-License-Identifier: Apache-2.0
// Activation functions by the name a config gives them.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace transformers {

using Activation = at::Tensor (*)(const at::Tensor&);

/// Throws `UnsupportedError` listing the known names for another.
Activation activation(const std::string& name);

/// Whether a name stands for GELU with tanh, under any of its names.
bool is_gelu_tanh(const std::string& name);

}  // namespace transformers
