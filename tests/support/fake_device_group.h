// SPDX-License-Identifier: Apache-2.0
// Collectives of a device that is not there.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "support/fake_device.h"

namespace accelerate {

/// Behaves towards the host as LibTorch's process group over NCCL does: an
/// operation starts and returns, `wait` holds up a stream and not the program,
/// a communicator that was aborted frees the device and refuses what comes.
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

  /// What reading a result does to a program: returns when the device is done
  /// with all that was started, which needs a peer that never comes, or when
  /// the communicator was aborted. False when that takes longer than `limit`.
  bool synchronize(std::chrono::milliseconds limit);

  /// From now on operations break with `why`.
  void break_with(const std::string& why);

 private:
  const FakeDevice& device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string broken_;
  bool aborted_ = false;
};

}  // namespace accelerate
