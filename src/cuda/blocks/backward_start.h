// SPDX-License-Identifier: Apache-2.0
// Marks the start of a backward pass that is being captured. Some work does not
// depend on any result of the backward pass, and its own result is needed only
// at the end of the pass. Such work can begin as soon as the pass starts.
#pragma once

#include <ATen/cuda/CUDAEvent.h>

namespace accelerate::cuda {

/// Records the event that marks the start of the current backward pass. Only
/// the first call in a pass has an effect. Does nothing outside a capture.
void record_backward_start();

/// Returns the event that marks the start of the current backward pass, or null
/// if no such event was recorded.
at::cuda::CUDAEvent* backward_start_event();

}  // namespace accelerate::cuda
