// SPDX-License-Identifier: Apache-2.0
// Helpers for the GPU tests.
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

#define ACCELERATE_NEEDS_GPU()                                 \
  if (::accelerate::find_device_backend() == nullptr) {        \
    GTEST_SKIP() << "there is no GPU that this build can use"; \
  }

namespace accelerate {

inline c10::Device gpu() {
  return c10::Device(c10::kCUDA, 0);
}

/// Returns the state of a single process on a device.
inline PartialState single_process_on(c10::Device device) {
  if (!device.is_cpu()) {
    cuda_backend().use_device(device.index());
  }
  return PartialState(Group(), device);
}

/// Returns the state of a single process that uses the code for several
/// processes: NCCL, buckets and hooks.
inline PartialState single_process_over_nccl() {
  cuda_backend().use_device(0);
  GroupOptions options;
  options.backend = Backend::nccl;
  options.device = gpu();
  return PartialState(
      Group(c10::make_intrusive<c10d::HashStore>(), 0, 1, options), gpu());
}

/// Counts CUDA calls that make the CPU wait for the GPU.
class SyncCounter {
 public:
  SyncCounter();
  SyncCounter(const SyncCounter&) = delete;
  SyncCounter& operator=(const SyncCounter&) = delete;
  ~SyncCounter();

  int count() const;
  /// Returns the names of the CUDA calls that waited.
  std::vector<std::string> calls() const;
};

}  // namespace accelerate
