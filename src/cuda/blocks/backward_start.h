// SPDX-License-Identifier: Apache-2.0
// Where a backward that is captured began: what waits for nothing in it, yet is
// asked for at its end, can begin there.
#pragma once

#include <ATen/cuda/CUDAEvent.h>

namespace accelerate::cuda {

/// Notes it; for the first block of a backward that runs. Nothing where that is
/// not captured.
void note_start_of_backward();

/// Null where nothing was noted for the backward that is running now.
at::cuda::CUDAEvent* start_of_backward();

}  // namespace accelerate::cuda
