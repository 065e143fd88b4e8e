// SPDX-License-Identifier: Apache-2.0
// A flag, computed on the device, that tells whether an optimizer step was
// skipped.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// Tells whether one optimizer step was skipped.
class SkipFlag {
 public:
  virtual ~SkipFlag() = default;
  /// Returns whether `value` would return without waiting for the device.
  virtual bool is_ready() const = 0;
  /// Returns whether the step was skipped. Waits for the device if necessary.
  virtual bool value() const = 0;
  /// Returns one float on the device: 1 if the step was skipped, otherwise 0.
  virtual const at::Tensor& on_device() const = 0;
};

/// Starts an asynchronous copy of `found_inf`, which is one float on a GPU, to
/// host memory. The next step may overwrite `found_inf` without waiting for
/// this copy.
std::shared_ptr<const SkipFlag> skip_flag_from(const at::Tensor& found_inf);

}  // namespace accelerate
