// SPDX-License-Identifier: Apache-2.0
// A device library; its versions are set at build time.
#include <stdexcept>

#include "device/device_backend.h"
#include "device/fused_blocks.h"

namespace {

accelerate::DeviceBackend& backend() {
  throw std::runtime_error("this fixture has no backend");
}

constexpr accelerate::DevicePlugin kPlugin = {
    FIXTURE_ABI, FIXTURE_BLOCKS, FIXTURE_TORCH_VERSION, &backend};

}  // namespace

extern "C" ACCELERATE_API const accelerate::DevicePlugin* FIXTURE_ENTRY() {
  return &kPlugin;
}
