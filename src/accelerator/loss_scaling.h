// SPDX-License-Identifier: Apache-2.0
// The gradient scaler's place in a step.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/fwd.h"
#include "accelerate/grad_scaler.h"
#include "optim/skip_flag.h"

namespace accelerate {

/// Scales losses and unscales finished gradients, for fp16; otherwise passes
/// everything through.
///
/// Gradients are unscaled as soon as they are averaged, so that `.grad` always
/// holds real values. A step that overflowed is dropped: our optimizers read
/// the flag on the device; for a foreign one `.grad` is undefined again, at
/// the price of one look at the flag.
class LossScaling {
 public:
  /// Off.
  LossScaling() = default;
  LossScaling(const GradScalerKwargs& kwargs, c10::Device device);

  bool is_on() const { return scaler_.has_value(); }

  /// Connects an optimizer that reads the flag by itself.
  void attach(torch::optim::Optimizer& optimizer);

  /// A backward begins, which adds to what is in `.grad` of `parameters`. That
  /// was unscaled, so it is scaled again.
  void begin_backward(const std::vector<at::Tensor>& parameters);
  at::Tensor scale(const at::Tensor& loss) const;
  /// The gradients in `.grad` of `parameters`, those of all models, are
  /// complete: unscales them, and drops them after an overflow if a foreign
  /// optimizer could see them.
  void finish(const std::vector<at::Tensor>& parameters);

  /// Adjusts the scale to the last step now. The next backward would do it,
  /// but a checkpoint keeps the scale that the next step will have.
  void settle();

  bool step_was_skipped() const;
  /// The same without waiting for the device; null where there is nothing to
  /// wait for.
  std::shared_ptr<const SkipFlag> skipped_later() const;
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }

 private:
  std::optional<GradScaler> scaler_;
  bool unscaled_ = false;  // since the last backward began
  bool open_ = false;      // The scale is not adjusted to the last step yet.
  bool foreign_optimizer_ = false;
};

}  // namespace accelerate
