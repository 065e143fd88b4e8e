// SPDX-License-Identifier: Apache-2.0
// Collectives of the fake device.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "support/fake_device.h"

namespace accelerate {

/// Behaves like LibTorch's NCCL process group: an operation returns once it is
/// queued, `wait` blocks a stream and not the calling thread, and an
/// aborted communicator unblocks the device and rejects further operations.
/// Moves no data.
class FakeDeviceGroup : public c10d::Backend {
 public:
  FakeDeviceGroup(const DeviceGroupOptions& options, const FakeDevice& device);

  const std::string getBackendName() const override { return "nccl"; }
  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options) override;
  void abort() override;
  void shutdown() override;

  /// Simulates reading a result. The queued operations never finish, because
  /// one rank never joins, so this function waits until the communicator is
  /// aborted. Returns false after `timeout`.
  bool synchronize(std::chrono::milliseconds timeout);

  /// From now on, operations fail with `message`.
  void break_with(const std::string& message);

 private:
  const FakeDevice& device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string error_;
  bool aborted_ = false;
};

}  // namespace accelerate
