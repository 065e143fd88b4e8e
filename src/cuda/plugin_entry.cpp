// SPDX-License-Identifier: Apache-2.0
// The interface that libaccelerate_cuda.so exports to libaccelerate.so.
#include <torch/headeronly/version.h>

#include "accelerate/export.h"
#include "cuda/blocks/table.h"
#include "cuda/cuda_backend.h"

namespace accelerate::cuda {
namespace {

DeviceBackend& backend() {
  static CudaBackend instance;
  static const bool has_set_blocks = [] {
    set_fused_blocks(&fused_block_table());
    return true;
  }();
  (void)has_set_blocks;
  return instance;
}

constexpr DevicePlugin kPlugin = {kDeviceAbi, TORCH_VERSION, &backend};

}  // namespace
}  // namespace accelerate::cuda

extern "C" ACCELERATE_API const accelerate::DevicePlugin*
accelerate_device_plugin() {
  return &accelerate::cuda::kPlugin;
}
