// SPDX-License-Identifier: Apache-2.0
// The random state of a device, as saved in checkpoints.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace accelerate {

/// Returns the state of the device's default generator.
at::Tensor random_state(c10::Device device);
/// Sets the state of the device's default generator. Throws `FormatError` and
/// changes nothing if `state` is not a state of this kind of generator.
void set_random_state(const at::Tensor& state, c10::Device device);

/// Seeds the device's default generator with a number derived from `state` and
/// `rank`, for a rank that the saved run did not have. The same arguments
/// always give the same seed.
void set_derived_random_state(
    const at::Tensor& state, int rank, c10::Device device);

}  // namespace accelerate
