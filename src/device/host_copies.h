// SPDX-License-Identifier: Apache-2.0
// What tensors on a device were copied from.
//
// A loader has a batch in memory before the device has it. Who wants to know a
// small thing of it later, such as how many tokens a mask leaves, need not wait
// for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"

namespace accelerate {

/// Remembers `on_host` for as long as `on_device` lives, and until some later
/// call sweeps up after it. Thread-safe.
ACCELERATE_API void remember_host_copy(
    const at::Tensor& on_device, const at::Tensor& on_host);

/// Undefined where nothing is known, or one of the two has changed since.
ACCELERATE_API at::Tensor host_copy_of(const at::Tensor& on_device);

}  // namespace accelerate
