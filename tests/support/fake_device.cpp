// SPDX-License-Identifier: Apache-2.0
#include "support/fake_device.h"

#include "device/device_library.h"
#include "support/fake_device_group.h"
#include "support/tape_graph.h"

namespace accelerate {

FakeDevice::FakeDevice(c10::DeviceType type) : type_(type) {
  register_device_backend(type, this);
}

FakeDevice::~FakeDevice() {
  register_device_backend(type_, nullptr);
}

bool FakeDevice::computes_in(c10::ScalarType type, int /*index*/) const {
  switch (type) {
    case c10::ScalarType::BFloat16:
      return has_bf16;
    case c10::ScalarType::Half:
      return has_fp16;
    default:
      return true;
  }
}

std::string FakeDevice::identity(int /*index*/) const {
  const std::lock_guard lock(mutex_);
  return is_shared ? "one" : "number " + std::to_string(identity_calls_++);
}

std::vector<DeviceGroupOptions> FakeDevice::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

std::vector<std::string> FakeDevice::log(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(rank);
  return index < logs_.size() ? logs_[index] : std::vector<std::string>{};
}

void FakeDevice::add_to_log(int rank, const std::string& operation) const {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(rank);
  if (index >= logs_.size()) {
    logs_.resize(index + 1);
  }
  logs_[index].push_back(operation);
}

c10d::Backend* FakeDevice::create_group(
    const DeviceGroupOptions& options) const {
  {
    const std::lock_guard lock(mutex_);
    groups_.push_back(options);
  }
  return c10::make_intrusive<FakeDeviceGroup>(options, *this).release();
}

std::unique_ptr<DeviceGraph> FakeDevice::make_graph(
    int /*index*/, const DeviceGraph* /*pool*/) const {
  return std::make_unique<TapeGraph>();
}

bool FakeDevice::is_capturing() const {
  return TapeGraph::is_capturing();
}

}  // namespace accelerate
