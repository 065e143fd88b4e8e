// SPDX-License-Identifier: Apache-2.0
// Whether the kernels of this library run on the current device.
#pragma once

#include <cuda_runtime_api.h>

namespace accelerate::cuda::kernels {

/// `cudaErrorNoKernelImageForDevice` and its kind when the library holds no
/// code for the current device; `cudaSuccess` when it does. Starts nothing.
[[nodiscard]] cudaError_t probe();

/// The architectures the kernels were compiled for, as in `sm_80 sm_90`.
[[nodiscard]] const char* architectures();

}  // namespace accelerate::cuda::kernels
