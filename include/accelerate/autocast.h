// SPDX-License-Identifier: Apache-2.0
// Mixed precision for one scope.
//
//     {
//       accelerate::AutocastGuard guard(at::kCPU, accelerate::Precision::bf16);
//       loss = model->forward(batch);   // matmuls in bf16
//     }
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "accelerate/export.h"
#include "accelerate/precision.h"

namespace accelerate {

/// Sets this thread's autocast state for one device type, and restores the
/// previous state at the end of the scope, even after an exception.
///
/// If `options.enabled` is false, autocast is off inside the scope, regardless
/// of the precision. If `options.enabled` is true and the precision is
/// `Precision::no`, the guard changes nothing. Guards may be nested. The cache
/// of cast weights is cleared at the end of the outermost guard, and at the end
/// of a guard that enabled the cache, so no cast weight outlives an optimizer
/// step.
///
/// Thread safety: create and destroy a guard on the same thread.
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
