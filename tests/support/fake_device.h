// SPDX-License-Identifier: Apache-2.0
// A fake accelerator, for tests of code that uses an accelerator.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "device/device_backend.h"

namespace accelerate {

/// While an object of this class exists, it replaces the accelerator of its
/// device type. Use `kCPU` if tensors need values, and `kMeta` if the device
/// must not be the CPU.
///
///     FakeDevice gpu(c10::kMeta);
///     run_on_ranks(2, {.backend = Backend::nccl, .device = …}, …);
///     EXPECT_THAT(gpu.log(0), ElementsAre("allreduce 4", "shutdown"));
class FakeDevice : public DeviceBackend {
 public:
  explicit FakeDevice(c10::DeviceType type);
  ~FakeDevice() override;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  // The properties that the device reports.
  std::string text = "Fake (sm_90)";
  DeviceMemory memory_stats;
  bool has_bf16 = true;
  bool has_fp16 = true;
  const FusedBlocks* blocks = nullptr;
  /// Whether all processes report the same device.
  bool is_shared = false;
  /// Returns the options of each process group that was created.
  std::vector<DeviceGroupOptions> groups() const;
  /// Returns the operations on a rank's process group, in order.
  std::vector<std::string> log(int rank) const;
  void add_to_log(int rank, const std::string& operation) const;

  const char* name() const override { return "fake"; }
  c10::DeviceType type() const override { return type_; }
  int device_count() const override { return 1; }
  std::string describe(int /*index*/) const override { return text; }
  std::string identity(int index) const override;
  void use_device(int /*index*/) const override {}
  bool computes_in(c10::ScalarType type, int index) const override;
  DeviceMemory memory(int /*index*/) const override { return memory_stats; }
  const char* collectives() const override { return "nccl"; }
  c10d::Backend* create_group(const DeviceGroupOptions& options) const override;
  std::unique_ptr<DeviceGraph> make_graph(
      int index, const DeviceGraph* pool) const override;
  bool is_capturing() const override;
  const FusedBlocks* fused_blocks() const override { return blocks; }

 private:
  c10::DeviceType type_;
  mutable std::mutex mutex_;
  mutable int identity_calls_ = 0;
  mutable std::vector<DeviceGroupOptions> groups_;
  mutable std::vector<std::vector<std::string>> logs_;
};

}  // namespace accelerate
