// SPDX-License-Identifier: Apache-2.0
// What libaccelerate_cuda.so shows to libaccelerate.so.
#include <torch/headeronly/version.h>

#include "accelerate/export.h"
#include "cuda/blocks/table.h"
#include "cuda/cuda_backend.h"

namespace accelerate::cuda {
namespace {

DeviceBackend& backend() {
  static CudaBackend instance;
  static const bool offers = [] {
    set_fused_blocks(&fused_block_table());
    return true;
  }();
  (void)offers;
  return instance;
}

constexpr DevicePlugin kPlugin = {kDeviceAbi, TORCH_VERSION, &backend};

}  // namespace
}  // namespace accelerate::cuda

extern "C" ACCELERATE_API const accelerate::DevicePlugin*
accelerate_device_plugin() {
  return &accelerate::cuda::kPlugin;
}
