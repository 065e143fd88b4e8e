// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/probe.h"

namespace accelerate::cuda::kernels {
namespace {

__global__ void nothing() {
}

}  // namespace

cudaError_t probe() {
  cudaFuncAttributes attributes{};
  const cudaError_t result = cudaFuncGetAttributes(&attributes, nothing);
  if (result != cudaSuccess) {
    (void)cudaGetLastError();  // Else the next caller would be told of it.
  }
  return result;
}

const char* architectures() {
  return ACCELERATE_KERNEL_ARCHITECTURES;
}

}  // namespace accelerate::cuda::kernels
