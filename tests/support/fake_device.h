// SPDX-License-Identifier: Apache-2.0
// An accelerator that is not there, for tests of the host's side of one.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "device/device_backend.h"

namespace accelerate {

/// Stands in for the accelerator of a kind of device while it lives: `kCPU`
/// where tensors need values, `kMeta` where it must not be the host.
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

  // What it says about itself.
  std::string text = "Fake (sm_90)";
  DeviceMemory room;
  bool has_bf16 = true;
  bool has_fp16 = true;
  /// Whether all processes have the same one.
  bool is_shared = false;
  /// What each group was made with.
  std::vector<DeviceGroupOptions> groups() const;
  /// What was asked of the group of a rank, in order.
  std::vector<std::string> log(int rank) const;
  void note(int rank, const std::string& what) const;

  const char* name() const override { return "fake"; }
  c10::DeviceType type() const override { return type_; }
  int device_count() const override { return 1; }
  std::string describe(int /*index*/) const override { return text; }
  std::string identity(int index) const override;
  void use_device(int /*index*/) const override {}
  bool computes_in(c10::ScalarType type, int index) const override;
  DeviceMemory memory(int /*index*/) const override { return room; }
  const char* collectives() const override { return "nccl"; }
  c10d::Backend* create_group(const DeviceGroupOptions& options) const override;
  std::unique_ptr<DeviceGraph> make_graph(
      int index, const DeviceGraph* pool) const override;
  bool is_recording() const override;

 private:
  c10::DeviceType type_;
  mutable std::mutex mutex_;
  mutable int asked_ = 0;
  mutable std::vector<DeviceGroupOptions> groups_;
  mutable std::vector<std::vector<std::string>> logs_;
};

}  // namespace accelerate
