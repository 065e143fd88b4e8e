// SPDX-License-Identifier: Apache-2.0
// Loss scaling for fp16: multiplies the loss by a scale so that small gradients
// do not underflow, divides the gradients by the scale, and skips steps whose
// gradients overflowed.
//
//     accelerate::GradScaler scaler;
//     scaler.scale(loss).backward();
//     scaler.unscale_(optimizer);
//     scaler.update();
//     if (!scaler.step_was_skipped()) {
//       optimizer.step();
//     }
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"
#include "accelerate/precision.h"

namespace accelerate {

/// A dynamic loss scale. The scale, the growth tracker and the overflow flags
/// are tensors on the device. Functions do not wait for the device unless their
/// comment says so.
///
/// A step consists of a call to `scale`, the backward pass, a call to
/// `unscale_` for each owner of gradients (such as an optimizer), and a call to
/// `update`. The flags keep their values until the next step calls `unscale_`,
/// so optimizers may read them before or after `update`. With `enabled =
/// false`, nothing is scaled and no step is skipped.
///
/// Thread safety: use a scaler from only one thread at a time.
class ACCELERATE_API GradScaler {
 public:
  /// Throws `ArgumentError` unless the growth factor is above 1, the backoff
  /// factor is between 0 and 1, the growth interval is at least 1, and the
  /// scale is positive.
  explicit GradScaler(
      const GradScalerKwargs& options = {},
      c10::Device device = c10::Device(c10::kCPU));

  bool is_enabled() const { return options_.enabled; }

  /// Returns the loss times the scale.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;

  /// Divides the gradients of an optimizer's parameters by the scale and sets
  /// the optimizer's overflow flag if a gradient is inf or NaN. A second call
  /// in the same step does nothing.
  ///
  /// Throws `ArgumentError` for an fp16 gradient, because parameters must be
  /// fp32.
  void unscale_(torch::optim::Optimizer& optimizer);
  /// Divides `gradients`, such as a reducer's buckets, by the scale and sets
  /// the overflow flag of `owner` if a gradient is inf or NaN. The overload for
  /// an optimizer uses the optimizer's address as `owner`. Skips undefined
  /// tensors.
  void unscale_(const std::vector<at::Tensor>& gradients, const void* owner);

  /// Returns a tensor with one float on the device: 1 if the gradients of
  /// `owner` overflowed in the current or last step, otherwise 0. Every call
  /// with the same `owner` returns the same tensor. The tensor is undefined
  /// when the scaler is not enabled.
  at::Tensor found_inf(const void* owner);

  /// Ends the step: reduces the scale if an overflow flag is set, and increases
  /// it after `growth_interval` steps without overflow.
  ///
  /// Throws `StateError` when `unscale_` has not been called since the last
  /// update.
  void update();

  /// Returns whether any gradients overflowed in the current or last step.
  /// Waits for the device once per step.
  bool step_was_skipped() const;

  /// Returns the tensor that `step_was_skipped` reads: one float on the device,
  /// 1 or 0. Later steps change the tensor. It is undefined before the first
  /// step.
  at::Tensor skip_flag() const { return combined(); }

  /// Makes `step_was_skipped` read the flag from the device again. Must be
  /// called after a captured step was replayed.
  void clear_cached_skip() { skipped_.reset(); }

  /// Returns the current scale; 1 when the scaler is not enabled. Waits for the
  /// device.
  double get_scale() const;
  /// Returns the scale as a tensor; undefined when the scaler is not enabled.
  const at::Tensor& scale_tensor() const { return scale_; }

  /// Returns the state with PyTorch's keys: `scale`, `growth_factor`,
  /// `backoff_factor`, `growth_interval`, `_growth_tracker`. Empty when the
  /// scaler is not enabled.
  Json state_dict() const;
  /// Loads a saved state. Throws `FormatError` when a key is missing or has the
  /// wrong type, and `StateError` when the saved scaler was enabled and this
  /// scaler is not, or vice versa.
  void load_state_dict(const Json& state);

 private:
  struct Flag {
    at::Tensor found_inf;
    bool unscaled = false;
  };
  void begin_step();
  at::Tensor combined() const;

  GradScalerKwargs options_;
  c10::Device device_;
  at::Tensor scale_;
  at::Tensor growth_tracker_;
  std::map<const void*, Flag> flags_;
  bool step_open_ = false;
  mutable std::optional<bool> skipped_;
};

}  // namespace accelerate
