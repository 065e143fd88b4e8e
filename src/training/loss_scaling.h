// SPDX-License-Identifier: Apache-2.0
// Applies the gradient scaler in a training step.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/fwd.h"
#include "accelerate/grad_scaler.h"
#include "optim/skip_flag.h"

namespace accelerate {

/// Scales losses and unscales finished gradients for fp16. With other
/// precisions, changes nothing.
///
/// Gradients are unscaled as soon as they are averaged, so that `.grad` always
/// holds unscaled values. A step whose gradients overflowed is skipped. This
/// library's optimizers read the overflow flag on the device. For optimizers
/// from other libraries, the CPU reads the flag once per step and resets
/// `.grad` after an overflow.
class LossScaling {
 public:
  /// Creates disabled loss scaling.
  LossScaling() = default;
  LossScaling(const GradScalerKwargs& kwargs, c10::Device device);

  bool is_on() const { return scaler_.has_value(); }

  /// Makes an optimizer skip steps whose gradients overflowed. An optimizer
  /// from this library then reads the overflow flag itself.
  void attach(torch::optim::Optimizer& optimizer);

  /// Starts a backward pass that adds to `.grad` of `parameters`. If `.grad`
  /// already holds unscaled gradients, scales these gradients again first.
  void begin_backward(const std::vector<at::Tensor>& parameters);
  at::Tensor scale(const at::Tensor& loss) const;
  /// Unscales the finished gradients. `parameters` are the trained parameters
  /// of all models. After an overflow, resets the gradients if an optimizer
  /// from another library is attached.
  void finish(const std::vector<at::Tensor>& parameters);

  /// Updates the scale now if the update is still pending. Normally the next
  /// backward pass does this, but a checkpoint must contain the updated scale.
  void update_scale();

  bool step_was_skipped() const;
  /// Returns a flag from which the result of `step_was_skipped` can be read
  /// later, so that the caller does not have to wait for the device now.
  /// Returns null if `step_was_skipped` would not wait anyway, and while a CUDA
  /// graph is captured.
  std::shared_ptr<const SkipFlag> deferred_skip_flag() const;
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }

 private:
  std::optional<GradScaler> scaler_;
  // Whether gradients were unscaled since the last backward pass began.
  bool unscaled_ = false;
  // Whether the scale must still be updated for the last step.
  bool update_pending_ = false;
  bool foreign_optimizer_ = false;
};

}  // namespace accelerate
