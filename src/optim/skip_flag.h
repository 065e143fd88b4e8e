// SPDX-License-Identifier: Apache-2.0
// Whether a step was skipped, on its way from the device.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// The flag of one step.
class SkipFlag {
 public:
  virtual ~SkipFlag() = default;
  /// Whether `value` has it without waiting.
  virtual bool has_come() const = 0;
  virtual bool value() const = 0;
  /// One float on the device, 1 where the step was skipped.
  virtual const at::Tensor& on_device() const = 0;
};

/// Begins to copy the flag, one float on a device that is not the CPU, to the
/// host. The tensor may be used for the next step at once.
std::shared_ptr<const SkipFlag> skip_flag_from(const at::Tensor& found_inf);

}  // namespace accelerate
