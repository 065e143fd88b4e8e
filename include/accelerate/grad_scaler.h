// SPDX-License-Identifier: Apache-2.0
// Keeps the small gradients of fp16 alive: multiplies the loss, divides the
// gradients, and skips steps that overflowed.
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

/// A loss scale that adapts. Scale, growth tracker and overflow flags are
/// tensors on the device: nothing here waits for it, except where said.
///
/// A step is: `scale` and backward, `unscale_` for each owner of gradients,
/// `update`. The flags stay as they are until the next step's `unscale_`, so
/// the optimizers that read them may run before or after `update`. With
/// `enabled = false` everything passes through.
///
/// Thread safety: one thread at a time.
class ACCELERATE_API GradScaler {
 public:
  /// Throws `ArgumentError` for a growth factor up to 1, a backoff factor from
  /// 1 on, a growth interval below 1 or a scale that is not positive.
  explicit GradScaler(
      const GradScalerKwargs& options = {},
      c10::Device device = c10::Device(c10::kCPU));

  bool is_enabled() const { return options_.enabled; }

  /// Returns the loss times the scale.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;

  /// Divides the gradients of an optimizer's parameters by the scale and notes
  /// whether one is inf or NaN. A second call in the same step does nothing.
  ///
  /// Throws `ArgumentError` on an fp16 gradient: its parameter should be fp32.
  void unscale_(torch::optim::Optimizer& optimizer);
  /// The same for any tensors, such as a reducer's buckets; `owner` stands for
  /// them and is the optimizer's address in the function above. Undefined
  /// tensors are passed over.
  void unscale_(const std::vector<at::Tensor>& gradients, const void* owner);

  /// 1 if the gradients of `owner` overflowed in the present or last step, else
  /// 0; one float on the device, the same tensor at each call. Undefined when
  /// the scaler is not enabled.
  at::Tensor found_inf(const void* owner);

  /// Ends the step: shrinks the scale if a flag is set, else grows it when it
  /// is time.
  ///
  /// Throws `StateError` when nothing was unscaled since the last call.
  void update();

  /// Whether a flag is set in the present or last step. Reads from the device
  /// once a step.
  bool step_was_skipped() const;

  /// What `step_was_skipped` reads: 1 or 0, one float on the device, which
  /// later steps change. Undefined before the first step.
  at::Tensor skip_flag() const { return combined(); }

  /// A recorded step ran: what `step_was_skipped` has read is not its result.
  void forget_reading() { skipped_.reset(); }

  /// The present scale; 1 when not enabled. Reads from the device.
  double get_scale() const;
  /// The scale as a tensor; undefined when not enabled.
  const at::Tensor& scale_tensor() const { return scale_; }

  /// The peer's keys: `scale`, `growth_factor`, `backoff_factor`,
  /// `growth_interval`, `_growth_tracker`; empty when not enabled.
  Json state_dict() const;
  /// Throws `FormatError` when a key is missing or of another type,
  /// `StateError` when one side is enabled and the other is not.
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
