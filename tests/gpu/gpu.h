// SPDX-License-Identifier: Apache-2.0
// What tests on a GPU share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accelerate/accelerator.h"
#include "accelerate/group.h"
#include "accelerate/partial_state.h"
#include "device/device_library.h"

#define ACCELERATE_NEEDS_GPU()                              \
  if (::accelerate::find_device_backend() == nullptr) {     \
    GTEST_SKIP() << "there is no GPU that this build uses"; \
  }

namespace accelerate {

inline c10::Device gpu() {
  return c10::Device(c10::kCUDA, 0);
}

/// A state of one process on a device.
inline PartialState alone_on(c10::Device device) {
  if (!device.is_cpu()) {
    cuda_backend().use_device(device.index());
  }
  return PartialState(Group(), device);
}

/// One process that goes the way of several: NCCL, buckets, hooks.
inline PartialState alone_over_nccl() {
  cuda_backend().use_device(0);
  GroupOptions options;
  options.backend = Backend::nccl;
  options.device = gpu();
  return PartialState(
      Group(c10::make_intrusive<c10d::HashStore>(), 0, 1, options), gpu());
}

/// Counts calls of CUDA that make the program wait for the device.
class WaitCounter {
 public:
  WaitCounter();
  WaitCounter(const WaitCounter&) = delete;
  WaitCounter& operator=(const WaitCounter&) = delete;
  ~WaitCounter();

  int waits() const;
  /// The names of the calls.
  std::vector<std::string> calls() const;
};

}  // namespace accelerate
