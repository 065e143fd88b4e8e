// SPDX-License-Identifier: Apache-2.0
// The CUDA implementation of the device layer's interface.
#pragma once

#include "device/device_backend.h"

namespace accelerate::cuda {

class CudaBackend : public DeviceBackend {
 public:
  /// Throws `UnsupportedError` if the loaded NCCL version does not match the
  /// NCCL version that this library was compiled with.
  CudaBackend();

  const char* name() const override { return "CUDA"; }
  c10::DeviceType type() const override { return c10::kCUDA; }
  int device_count() const override;
  std::string describe(int index) const override;
  std::string identity(int index) const override;
  void use_device(int index) const override;
  bool computes_in(c10::ScalarType type, int index) const override;
  DeviceMemory memory(int index) const override;
  const char* collectives() const override { return "nccl"; }
  c10d::Backend* create_group(const DeviceGroupOptions& options) const override;
  std::unique_ptr<DeviceGraph> make_graph(
      int index, const DeviceGraph* pool) const override;
  bool is_capturing() const override;
  const FusedBlocks* fused_blocks() const override;
};

}  // namespace accelerate::cuda
