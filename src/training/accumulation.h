// SPDX-License-Identifier: Apache-2.0
// Decides which micro-steps synchronize gradients, and how micro-steps are
// weighted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/accelerator_options.h"
#include "accelerate/group.h"
#include "accelerate/json.h"
#include "state/gradient_state.h"

namespace accelerate {

/// Counts the micro-steps of an Accelerator and computes their weights.
class Accumulation {
 public:
  explicit Accumulation(const GradientAccumulationPlugin& plugin);

  const GradientAccumulationPlugin& plugin() const { return plugin_; }
  void set_num_steps(std::int64_t steps);

  /// Starts a micro-step: sets `state.sync_gradients`.
  ///
  /// If the plugin's `weighting` is `weighted`, `weight` must be set; with any
  /// other weighting, it must be empty. Throws `ArgumentError` if this rule is
  /// broken, or if the weight is negative or not finite.
  void begin_micro_step(GradientState& state, std::optional<double> weight);

  /// Returns the factor by which this micro-step's loss is multiplied.
  double loss_factor() const;
  /// Returns the factor by which the averaged gradients of a finished
  /// micro-batch group are multiplied. With `fixed` weighting, returns 1
  /// without communication. With any other weighting, the call is collective.
  double gradient_factor(const Group& group) const;
  /// Like `gradient_factor`, but for gradients that are not averaged over
  /// processes. Not collective.
  double local_gradient_factor() const;
  /// Takes part, with weight 0, when the other ranks call `gradient_factor`.
  /// Called by a rank that has no more batches.
  void join_gradient_factor(const Group& group) const;

  /// Resets all counters and weights; keeps the plugin.
  void restart();

  /// Returns whether the current micro-batch group ends with fewer than
  /// `num_steps` micro-batches.
  bool incomplete_group() const { return incomplete_; }

  /// Returns the position in the micro-batch group and the settings of the
  /// plugin. Does not include `group_weight`, which differs between ranks.
  Json state_dict() const;
  void load_state_dict(const Json& state);
  /// Returns why this run cannot use gradient sums that were saved with
  /// `state`; empty if it can.
  std::string incompatibility(const Json& state) const;
  /// Returns the total weight of the micro-batches so far in the current group,
  /// on this rank.
  double group_weight() const { return group_weight_; }
  void set_group_weight(double weight) { group_weight_ = weight; }

 private:
  GradientAccumulationPlugin plugin_;
  /// Number of micro-steps so far. Starts again at 0 when the last batch of a
  /// loader forces a synchronization.
  std::int64_t step_ = 0;
  /// Micro-steps in the current micro-batch group so far.
  std::int64_t in_group_ = 0;
  double weight_ = 1;
  double group_weight_ = 0;
  bool incomplete_ = false;
};

}  // namespace accelerate
