// SPDX-License-Identifier: Apache-2.0
// The interface that libaccelerate_cuda.so exports to libaccelerate.so.
#include <torch/headeronly/version.h>

#include "accelerate/export.h"
#include "cuda/cuda_backend.h"
#include "device/fused_blocks.h"

namespace accelerate::cuda {
namespace {

DeviceBackend& backend() {
  static CudaBackend instance;
  return instance;
}

constexpr DevicePlugin kPlugin = {
    kDeviceAbi, kFusedBlocksVersion, TORCH_VERSION, &backend};

}  // namespace
}  // namespace accelerate::cuda

extern "C" ACCELERATE_API const accelerate::DevicePlugin*
accelerate_device_plugin() {
  return &accelerate::cuda::kPlugin;
}
