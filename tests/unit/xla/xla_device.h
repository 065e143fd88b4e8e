// SPDX-License-Identifier: Apache-2.0
// The XLA device of a test process: one device of the CPU plugin, strict.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "xla/device/operators.h"
#include "xla/device/tracer.h"

namespace accelerate::xla {

/// Opens the device with as many devices as ACCELERATE_TEST_XLA_DEVICES says.
Tracer& test_device();

inline at::Tensor to_xla(const at::Tensor& tensor) {
  test_device();
  return tensor.to(c10::Device(c10::kXLA, 0));
}

/// Divides dimension 0 over the devices if its size allows it.
at::Tensor to_xla_divided(const at::Tensor& tensor);

inline at::Tensor to_cpu(const at::Tensor& tensor) {
  return tensor.to(c10::Device(c10::kCPU));
}

/// Computes everything recorded so far.
inline void run_device() {
  Tracer& all = test_device();
  const auto lock = all.lock();
  all.run();
}

/// Runs with fallbacks to the CPU allowed.
class AllowFallbacks {
 public:
  AllowFallbacks() { test_device().set_strict(false); }
  AllowFallbacks(const AllowFallbacks&) = delete;
  AllowFallbacks& operator=(const AllowFallbacks&) = delete;
  ~AllowFallbacks() { test_device().set_strict(true); }
};

}  // namespace accelerate::xla
