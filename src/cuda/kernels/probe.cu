// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/probe.h"

namespace accelerate::cuda::kernels {
namespace {

__global__ void empty_kernel() {
}

}  // namespace

cudaError_t probe() {
  cudaFuncAttributes attributes{};
  const cudaError_t result = cudaFuncGetAttributes(&attributes, empty_kernel);
  if (result != cudaSuccess) {
    (void)cudaGetLastError();  // Clears the error for later calls.
  }
  return result;
}

const char* architectures() {
  return ACCELERATE_KERNEL_ARCHITECTURES;
}

}  // namespace accelerate::cuda::kernels
