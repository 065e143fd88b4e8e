// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include "cuda/blocks/table.h"
#include "cuda/kernels/probe.h"
#include "cuda/nccl_group.h"
#include "cuda/step_graph.h"
#include "device/cuda_facts.h"

namespace accelerate::cuda {
namespace {

c10::DeviceIndex index_of(int index) {
  return static_cast<c10::DeviceIndex>(index);
}

GpuFacts facts_of(int index) {
  const cudaDeviceProp* device = at::cuda::getDeviceProperties(index_of(index));
  return {index, device->name, device->major, device->minor};
}

}  // namespace

CudaBackend::CudaBackend() {
  check_nccl_version();
}

int CudaBackend::device_count() const {
  return c10::cuda::device_count();
}

std::string CudaBackend::describe(int index) const {
  return gpu_text(facts_of(index));
}

std::string CudaBackend::identity(int index) const {
  const cudaDeviceProp* device = at::cuda::getDeviceProperties(index_of(index));
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : device->uuid.bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += {kDigits[value / 16], kDigits[value % 16]};
  }
  return text;
}

void CudaBackend::use_device(int index) const {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::set_device(index_of(index));
  const cudaError_t status = kernels::probe();
  if (status != cudaSuccess) {
    throw missing_kernels_error(
        facts_of(index), kernels::architectures(), cudaGetErrorString(status));
  }
}

bool CudaBackend::computes_in(c10::ScalarType type, int index) const {
  return gpu_computes_in(type, facts_of(index));
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

bool CudaBackend::is_capturing() const {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() !=
         c10::cuda::CaptureStatus::None;
}

const FusedBlocks* CudaBackend::fused_blocks() const {
  return &fused_block_table();
}

}  // namespace accelerate::cuda
