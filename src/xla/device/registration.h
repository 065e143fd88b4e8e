// SPDX-License-Identifier: Apache-2.0
// The parts of `register_device`.
#pragma once

#include <torch/library.h>

namespace accelerate::xla {

/// Kernels for operators with a lowering, and the fallback for all others.
void register_lowerings(torch::Library& aten, torch::Library& others);
/// Kernels that make, copy and view tensors.
void register_tensor_kernels(torch::Library& aten);
/// The casts of mixed precision, for the autocast key.
void register_autocast(torch::Library& m, torch::Library& others);
/// The device guard and the hooks.
void register_hooks();

}  // namespace accelerate::xla
