// SPDX-License-Identifier: Apache-2.0
// Mixed precision on xla:0: the same lists of operators as on a GPU.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "xla/device/registration.h"

// LibTorch's lists call a macro for each operator, and its macro KERNEL
// registers into a library named `m`.
#define ACCELERATE_XLA_LOWER(...) \
  KERNEL(c10::DeviceType::XLA, __VA_ARGS__, lower_precision_fp)
#define ACCELERATE_XLA_F32(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, fp32)
#define ACCELERATE_XLA_F32_RESULT(...) \
  KERNEL(c10::DeviceType::XLA, __VA_ARGS__, fp32_set_opt_dtype)
#define ACCELERATE_XLA_PROMOTE(...) \
  KERNEL(c10::DeviceType::XLA, __VA_ARGS__, promote)

namespace accelerate::xla {

void register_autocast(torch::Library& m, torch::Library& others) {
  others.fallback(torch::CppFunction::makeFallthrough());
  AT_FORALL_LOWER_PRECISION_FP(ACCELERATE_XLA_LOWER)
  AT_FORALL_FP32(ACCELERATE_XLA_F32)
  AT_FORALL_FP32_SET_OPT_DTYPE(ACCELERATE_XLA_F32_RESULT)
  AT_FORALL_PROMOTE(ACCELERATE_XLA_PROMOTE)
}

}  // namespace accelerate::xla
