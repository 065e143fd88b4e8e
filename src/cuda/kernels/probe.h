// SPDX-License-Identifier: Apache-2.0
// Checks whether the kernels in this library can run on the current device.
#pragma once

#include <cuda_runtime_api.h>

namespace accelerate::cuda::kernels {

/// Returns `cudaSuccess` if this library has code for the current device.
/// Otherwise, returns `cudaErrorNoKernelImageForDevice` or a similar error.
/// Launches no kernel.
[[nodiscard]] cudaError_t probe();

/// Returns the architectures that the kernels were compiled for, for example
/// `sm_80 sm_90`.
[[nodiscard]] const char* architectures();

}  // namespace accelerate::cuda::kernels
