// SPDX-License-Identifier: Apache-2.0
// The CPU tensors from which tensors on a device were copied.
//
// A data loader has a batch in CPU memory before it copies the batch to the
// device. Code that later needs a small fact about the batch, such as the
// number of real tokens in a mask, can read this fact from the CPU tensor
// instead of waiting for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"

namespace accelerate {

/// Remembers that `on_device` was copied from `on_cpu`, and keeps `on_cpu`
/// alive. Once `on_device` no longer exists, a later call to this function
/// releases `on_cpu`. Thread-safe.
ACCELERATE_API void remember_cpu_copy(
    const at::Tensor& on_device, const at::Tensor& on_cpu);

/// Returns the CPU tensor from which `on_device` was copied. Returns an
/// undefined tensor if that CPU tensor is unknown, or if either tensor has been
/// modified since the copy.
ACCELERATE_API at::Tensor cpu_copy_of(const at::Tensor& on_device);

}  // namespace accelerate
