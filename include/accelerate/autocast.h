// SPDX-License-Identifier: Apache-2.0
// Mixed precision for one scope.
//
//     {
//       accelerate::AutocastGuard guard(at::kCPU, accelerate::Precision::bf16);
//       loss = model->forward(batch);   // matrix products in bf16
//     }
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "accelerate/export.h"
#include "accelerate/precision.h"

namespace accelerate {

/// Sets this thread's autocast for one kind of device and puts everything back
/// at the end of the scope, also when that is an exception.
///
/// With `Precision::no` nothing changes; with `enabled = false` autocast is
/// off inside, whatever the precision. Guards nest. Cast weights are forgotten
/// at the end of the outermost guard, and of a guard that switched the cache
/// on, so that none outlives an optimizer step.
///
/// Thread safety: belongs to the thread that made it, and ends there.
class ACCELERATE_API AutocastGuard {
 public:
  AutocastGuard(
      c10::DeviceType device,
      Precision precision,
      const AutocastKwargs& options = {});
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  ~AutocastGuard();

 private:
  bool active_;
  c10::DeviceType device_;
  bool was_enabled_ = false;
  bool was_cache_enabled_ = false;
  c10::ScalarType old_dtype_ = c10::ScalarType::Float;
};

}  // namespace accelerate
