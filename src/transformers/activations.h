// SPDX-License-Identifier: Apache-2.0
// Looks up activation functions by the names that configs use.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace transformers {

using Activation = at::Tensor (*)(const at::Tensor&);

/// Returns the activation function called `name`. Throws `UnsupportedError`,
/// which lists the known names, if the name is unknown.
Activation activation(const std::string& name);

/// Whether `name` is a name for the tanh approximation of GELU.
bool is_gelu_tanh(const std::string& name);

}  // namespace transformers
