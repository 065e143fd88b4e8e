// SPDX-License-Identifier: Apache-2.0
// Which micro-steps synchronise, and what each weighs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/accelerator_options.h"
#include "accelerate/group.h"
#include "accelerate/json.h"
#include "state/gradient_state.h"

namespace accelerate {

/// Counts the micro-steps of an Accelerator.
class Accumulation {
 public:
  explicit Accumulation(const GradientAccumulationPlugin& plugin);

  const GradientAccumulationPlugin& plugin() const { return plugin_; }
  void set_num_steps(std::int64_t steps);

  /// A micro-step begins: sets `sync_gradients`.
  ///
  /// Throws `ArgumentError` when a weight is given or missing against the
  /// plugin's `weighting`, or is not positive.
  void begin_micro_step(GradientState& state, std::optional<double> weight);

  /// What the loss of this backward is multiplied with.
  double loss_factor() const;
  /// What the averaged gradients of a finished group are multiplied with; 1
  /// with fixed weights. Collective otherwise.
  double gradient_factor(const Group& group) const;
  /// The same for gradients that stayed in this process.
  double local_gradient_factor() const;
  /// For a rank that takes part without a batch of its own. Collective.
  void join_gradient_factor(const Group& group) const;

  /// Forgets where the run is.
  void restart();

  /// Whether a group ended early, with weights that were meant for a full one.
  bool incomplete_group() const { return incomplete_; }

  /// Where in a group the run is. The sum of weights differs between ranks, so
  /// it is given apart.
  Json state_dict() const;
  void load_state_dict(const Json& state);
  /// Why sums that were made in such a state are none for this one; empty if
  /// they are.
  std::string misfit(const Json& state) const;
  double group_weight() const { return group_weight_; }
  void set_group_weight(double weight) { group_weight_ = weight; }

 private:
  GradientAccumulationPlugin plugin_;
  std::int64_t step_ = 0;      // since the start, or the last forced sync
  std::int64_t in_group_ = 0;  // micro-steps of the group so far
  double weight_ = 1;
  double group_weight_ = 0;
  bool incomplete_ = false;
};

}  // namespace accelerate
