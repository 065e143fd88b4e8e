// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/kernels/probe.h"
#include "cuda/nccl_group.h"
#include "cuda/step_graph.h"

namespace accelerate::cuda {
namespace {

c10::DeviceIndex index_of(int index) {
  return static_cast<c10::DeviceIndex>(index);
}

}  // namespace

CudaBackend::CudaBackend() {
  check_nccl_version();
}

int CudaBackend::device_count() const {
  return c10::cuda::device_count();
}

std::string CudaBackend::describe(int index) const {
  const cudaDeviceProp* device = at::cuda::getDeviceProperties(index_of(index));
  return str_cat(device->name, " (sm_", device->major, device->minor, ")");
}

void CudaBackend::use_device(int index) const {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::set_device(index_of(index));
  const cudaError_t status = kernels::probe();
  if (status != cudaSuccess) {
    throw UnsupportedError(
        str_cat(
            "this build has kernels for ",
            kernels::architectures(),
            ", which GPU ",
            index,
            ", ",
            describe(index),
            ", cannot run: ",
            cudaGetErrorString(status)),
        "rebuild with -DACCELERATE_CUDA_ARCHITECTURES set to what the GPU has");
  }
}

// Tensor cores for bf16 came with sm_80; before, LibTorch emulates it.
bool CudaBackend::computes_in(c10::ScalarType type, int index) const {
  const cudaDeviceProp* device = at::cuda::getDeviceProperties(index_of(index));
  switch (type) {
    case c10::ScalarType::BFloat16:
      return device->major >= 8;
    case c10::ScalarType::Half:
      return device->major >= 6;
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
      return device->major * 10 + device->minor >= 89;
    default:
      return true;
  }
}

DeviceMemory CudaBackend::memory(int index) const {
  std::size_t free = 0;
  std::size_t total = 0;
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const c10::cuda::CUDAGuard guard(index_of(index));
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    (void)cudaGetLastError();
  }
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(index_of(index));
  return {
      static_cast<std::int64_t>(free),
      static_cast<std::int64_t>(total),
      stats.allocated_bytes[0].peak};
}

c10d::Backend* CudaBackend::create_group(
    const DeviceGroupOptions& options) const {
  return make_nccl_group(options).release();
}

std::unique_ptr<DeviceGraph> CudaBackend::make_graph(
    int index, const DeviceGraph* pool) const {
  return std::make_unique<StepGraph>(
      index, dynamic_cast<const StepGraph*>(pool));
}

bool CudaBackend::is_recording() const {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() !=
         c10::cuda::CaptureStatus::None;
}

}  // namespace accelerate::cuda
