// SPDX-License-Identifier: Apache-2.0
// The device xla:0 of a test process: the CPU plugin, in strict mode, which
// does not allow fallbacks to the CPU.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "xla/device/operators.h"
#include "xla/device/tracer.h"

namespace accelerate::xla {

/// Returns xla:0. The first call opens it, with as many devices of the CPU
/// plugin as ACCELERATE_TEST_XLA_DEVICES says (default: 1).
Tracer& test_device();

inline at::Tensor to_xla(const at::Tensor& tensor) {
  test_device();
  return tensor.to(c10::Device(c10::kXLA, 0));
}

/// Copies `tensor` to xla:0, with dimension 0 divided evenly over the devices,
/// or with a full copy on each device if its size is not divisible.
at::Tensor to_xla_divided(const at::Tensor& tensor);

inline at::Tensor to_cpu(const at::Tensor& tensor) {
  return tensor.to(c10::Device(c10::kCPU));
}

/// Runs all operations that the tracer has recorded so far.
inline void run_device() {
  Tracer& all = test_device();
  const auto lock = all.lock();
  all.run();
}

/// While an object of this class exists, operators may fall back to the CPU.
class AllowFallbacks {
 public:
  AllowFallbacks() { test_device().set_strict(false); }
  AllowFallbacks(const AllowFallbacks&) = delete;
  AllowFallbacks& operator=(const AllowFallbacks&) = delete;
  ~AllowFallbacks() { test_device().set_strict(true); }
};

}  // namespace accelerate::xla
