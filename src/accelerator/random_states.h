// SPDX-License-Identifier: Apache-2.0
// The random numbers of a device, as checkpoints keep them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace accelerate {

/// Of the device's default generator.
at::Tensor random_state(c10::Device device);
/// Throws `FormatError` for what is no state of such a generator, which is
/// then as it was.
void set_random_state(const at::Tensor& state, c10::Device device);

/// For a rank that the saved run did not have: random, and the same each time.
void set_derived_random_state(
    const at::Tensor& state, int rank, c10::Device device);

}  // namespace accelerate
