// SPDX-License-Identifier: Apache-2.0
// Copies numbers from a device without waiting; another thread reads the
// copies.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/tracker.h"

namespace accelerate {

/// Returns the only element of a tensor on the CPU.
TrackedValue number_in(const at::Tensor& tensor);

/// Starts copying numbers from their devices to host memory. Each tensor must
/// have one element, and there must be at least one tensor. Does not wait: for
/// tensors on one GPU, it launches one kernel and records one event. The
/// returned function waits for the copies and returns the numbers.
std::function<std::vector<TrackedValue>()> begin_reading(
    const std::vector<at::Tensor>& tensors);

/// Starts copying a tensor to host memory. Does not wait. A tensor on the CPU
/// is cloned, because the program may change it. The returned function waits
/// until the copy is complete, and returns the copy.
std::function<at::Tensor()> begin_copying(const at::Tensor& tensor);

}  // namespace accelerate
