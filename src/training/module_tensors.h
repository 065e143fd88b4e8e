// SPDX-License-Identifier: Apache-2.0
// The tensors of a module with their names.
#pragma once

#include "accelerate/fwd.h"
#include "parallel/gradient_path.h"

namespace accelerate {

/// Returns the parameters of a module. A tied weight appears under each of its
/// names.
NamedTensors all_parameters_of(const torch::nn::Module& module);

/// Returns the parameters of a module, each tensor once.
NamedTensors parameters_of(const torch::nn::Module& module);

NamedTensors buffers_of(const torch::nn::Module& module);

}  // namespace accelerate
