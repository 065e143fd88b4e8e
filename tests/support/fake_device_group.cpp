// SPDX-License-Identifier: Apache-2.0
#include "support/fake_device_group.h"

#include <stdexcept>

#include "base/str_cat.h"

namespace accelerate {
namespace {

class FakeWork : public c10d::Work {
 public:
  FakeWork(const FakeDevice& device, int rank, std::int64_t length)
      : device_(device), rank_(rank), length_(length) {}

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    device_.add_to_log(rank_, str_cat("wait ", length_));
    return true;
  }

 private:
  const FakeDevice& device_;
  int rank_;
  std::int64_t length_;
};

}  // namespace

FakeDeviceGroup::FakeDeviceGroup(
    const DeviceGroupOptions& options, const FakeDevice& device)
    : Backend(options.rank, options.size), device_(device) {
}

c10::intrusive_ptr<c10d::Work> FakeDeviceGroup::allreduce(
    std::vector<at::Tensor>& tensors,
    const c10d::AllreduceOptions& /*options*/) {
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) {
    throw std::runtime_error(error_);
  }
  const std::int64_t length = tensors.front().numel();
  device_.add_to_log(getRank(), str_cat("allreduce ", length));
  return c10::make_intrusive<FakeWork>(device_, getRank(), length);
}

void FakeDeviceGroup::abort() {
  device_.add_to_log(getRank(), "abort");
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  error_ = str_cat(
      "NCCL communicator was aborted on rank ", getRank(), ".\nstack: …");
  changed_.notify_all();
}

void FakeDeviceGroup::shutdown() {
  device_.add_to_log(getRank(), "shutdown");
}

bool FakeDeviceGroup::synchronize(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return aborted_; });
}

void FakeDeviceGroup::break_with(const std::string& message) {
  const std::lock_guard lock(mutex_);
  error_ = message;
}

}  // namespace accelerate
