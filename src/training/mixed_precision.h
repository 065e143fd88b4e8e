// SPDX-License-Identifier: Apache-2.0
// The precision of a run, and autocast for its models.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include <c10/core/Device.h>

#include "accelerate/accelerator_options.h"
#include "accelerate/autocast.h"
#include "accelerate/fwd.h"
#include "config/environment.h"
#include "training/loss_scaling.h"
#include "training/prepared_objects.h"

namespace accelerate {

/// Enables autocast for the models of one Accelerator. Modules that derive from
/// `AutocastModule` enable autocast during `forward`. For other modules,
/// autocast is enabled in the thread that prepares the module and stays
/// enabled, unless the scope is `AutocastScope::manual`.
///
/// Thread safety: use this object only from the thread that runs the training
/// loop.
class MixedPrecision {
 public:
  /// Uses the precision from `options`, or else from `environment`. Throws
  /// `UnsupportedError` if `device` does not support it.
  MixedPrecision(
      const AcceleratorOptions& options,
      const Environment& environment,
      c10::Device device);
  MixedPrecision(const MixedPrecision&) = delete;
  MixedPrecision& operator=(const MixedPrecision&) = delete;
  ~MixedPrecision();

  Precision precision() const { return precision_; }

  /// Enables autocast for `module`. Throws `StateError` if autocast must be
  /// enabled in this thread, but another Accelerator has already enabled
  /// autocast.
  void enable(torch::nn::Module& module);
  /// Disables autocast in this thread and in all `models` that still exist.
  void disable(const std::vector<PreparedModel>& models);
  /// Throws `StateError` if autocast is enabled only in another thread.
  void check_thread() const;

  /// Returns a guard that enables or disables autocast until the guard is
  /// destroyed.
  std::unique_ptr<AutocastGuard> guard(const AutocastKwargs& kwargs) const;
  /// Creates the loss scaling, which is enabled if the precision is fp16.
  std::shared_ptr<LossScaling> make_loss_scaling() const;

 private:
  void enable_in_thread();
  void disable_in_thread();

  c10::Device device_;
  Precision precision_;
  AutocastKwargs autocast_;
  AutocastScope scope_;
  GradScalerKwargs scaler_;
  std::unique_ptr<AutocastGuard> thread_autocast_;
  std::thread::id thread_;  // the thread of `thread_autocast_`
};

}  // namespace accelerate
