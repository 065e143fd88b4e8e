// SPDX-License-Identifier: Apache-2.0
// Copies single numbers to host memory without waiting for the device.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// See `FusedBlocks::copy_numbers`.
bool copy_numbers(const std::vector<at::Tensor>& tensors, std::int64_t* to);

}  // namespace accelerate::cuda
