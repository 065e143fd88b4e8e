// SPDX-License-Identifier: Apache-2.0
// Looks up activation functions by the names that configs use.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace transformers {

using Activation = at::Tensor (*)(const at::Tensor&);

/// Returns the activation function called `name`. If the name is unknown,
/// throws an `UnsupportedError` that lists the known names.
Activation activation(const std::string& name);

/// Returns the kind of the activation function called `name`, for the options
/// of a fused block. Throws the same error as `activation`.
accelerate::ActivationKind activation_kind(const std::string& name);

}  // namespace transformers
