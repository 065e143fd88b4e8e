// SPDX-License-Identifier: Apache-2.0
// The functions that `register_device` calls.
#pragma once

#include <torch/library.h>

namespace accelerate::xla {

/// Registers kernels for operators with a lowering, and a fallback for all
/// other operators.
void register_lowerings(torch::Library& aten, torch::Library& others);
/// Registers the kernels of operators that create, copy or view tensors.
void register_tensor_kernels(torch::Library& aten);
/// Registers the steps of fused optimizers.
void register_fused_optimizers(torch::Library& aten);
/// Registers the casts of mixed precision for the dispatch key `AutocastXLA`.
void register_autocast(torch::Library& m, torch::Library& others);
/// Registers the device guard and the hooks.
void register_hooks();

}  // namespace accelerate::xla
