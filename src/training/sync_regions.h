// SPDX-License-Identifier: Apache-2.0
// The regions in which backward passes do not synchronize gradients.
#pragma once

#include <map>

#include "accelerate/fwd.h"
#include "parallel/gradient_path.h"

namespace accelerate {

/// Counts the open regions of one Accelerator (`no_sync`, `LocalSGD`) and
/// decides how the next backward pass synchronizes gradients.
class SyncRegions {
 public:
  /// Begin and end a region for all models.
  void begin_no_sync() { ++depth_; }
  void end_no_sync() { --depth_; }
  /// Begin and end a region for one model.
  void begin_no_sync(const torch::nn::Module& model) { ++models_[&model]; }
  void end_no_sync(const torch::nn::Module& model) { --models_[&model]; }
  /// Begins a `no_sync` region in which each process also updates its own
  /// parameters.
  void begin_local_training();
  void end_local_training();

  /// Makes the next backward pass synchronize gradients, in any region.
  void trigger() { triggered_ = true; }

  /// Returns how the next backward pass synchronizes gradients.
  /// `completes_group` is true if this backward pass completes a micro-batch
  /// group, and `each_batch` is true if the gradients of every micro-batch are
  /// reduced.
  Sync next(bool completes_group, bool each_batch);
  /// Returns how `model` synchronizes its gradients in the backward pass for
  /// which `next` returned `sync`.
  Sync sync_of(const torch::nn::Module* model, Sync sync) const;
  /// Returns whether optimizers can step after a backward pass with `sync`.
  bool is_update(Sync sync) const;

  bool in_no_sync() const { return depth_ > 0; }
  bool trains_locally() const { return local_trainers_ > 0; }

 private:
  int depth_ = 0;
  int local_trainers_ = 0;
  /// For each model that is in a region of its own, the nesting depth.
  std::map<const torch::nn::Module*, int> models_;
  bool triggered_ = false;
  // Whether the current backward pass must synchronize.
  bool triggered_now_ = false;
  Sync local_sync_ = Sync::visible;  // The value for the current backward pass.
};

}  // namespace accelerate
