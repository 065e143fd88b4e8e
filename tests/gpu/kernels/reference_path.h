// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_library.h"

namespace transformers {

/// The CUDA backend without its fused blocks. Models that are prepared while
/// this object exists use the reference path, and so do optimizers.
class ReferencePathOnly : public accelerate::DeviceBackend {
 public:
  ReferencePathOnly() { accelerate::register_device_backend(c10::kCUDA, this); }
  ReferencePathOnly(const ReferencePathOnly&) = delete;
  ReferencePathOnly& operator=(const ReferencePathOnly&) = delete;
  ~ReferencePathOnly() override {
    accelerate::register_device_backend(c10::kCUDA, nullptr);
  }

  const accelerate::FusedBlocks* fused_blocks() const override {
    return nullptr;
  }

  const char* name() const override { return cuda_.name(); }
  c10::DeviceType type() const override { return cuda_.type(); }
  int device_count() const override { return cuda_.device_count(); }
  std::string describe(int index) const override {
    return cuda_.describe(index);
  }
  std::string identity(int index) const override {
    return cuda_.identity(index);
  }
  void use_device(int index) const override { cuda_.use_device(index); }
  bool computes_in(c10::ScalarType type, int index) const override {
    return cuda_.computes_in(type, index);
  }
  accelerate::DeviceMemory memory(int index) const override {
    return cuda_.memory(index);
  }
  const char* collectives() const override { return cuda_.collectives(); }
  c10d::Backend* create_group(
      const accelerate::DeviceGroupOptions& options) const override {
    return cuda_.create_group(options);
  }
  std::unique_ptr<accelerate::DeviceGraph> make_graph(
      int index, const accelerate::DeviceGraph* pool) const override {
    return cuda_.make_graph(index, pool);
  }
  bool is_capturing() const override { return cuda_.is_capturing(); }

 private:
  accelerate::DeviceBackend& cuda_ = accelerate::cuda_backend();
};

}  // namespace transformers
