// SPDX-License-Identifier: Apache-2.0
// One backward pass, from the loss to the gradients of an update.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/accelerator_options.h"
#include "accelerate/partial_state.h"
#include "optim/scheduler_context.h"
#include "parallel/strategy.h"
#include "state/gradient_state.h"
#include "state/mesh.h"
#include "training/accumulation.h"
#include "training/joint_steps.h"
#include "training/loss_scaling.h"
#include "training/mixed_precision.h"
#include "training/prepared_objects.h"
#include "training/sync_batch_norms.h"
#include "training/sync_regions.h"

namespace accelerate {

/// Runs the backward passes of one Accelerator and counts its updates. Decides
/// which backward passes synchronize gradients, scales losses and gradients,
/// and keeps buffers equal on all ranks. The strategy averages the gradients.
///
/// Thread safety: use this object only from the thread that runs the training
/// loop.
class TrainingStep {
 public:
  /// The parts of a run that a step uses. The parts must outlive the step.
  struct Run {
    const PartialState& state;
    const Mesh& mesh;
    Strategy& strategy;
    PreparedObjects& objects;
    const MixedPrecision& precision;
  };
  struct Options {
    GradientAccumulationPlugin accumulation = {};
    /// Value of `DistributedDataParallelKwargs::broadcast_buffers`.
    bool broadcast_buffers = true;
  };

  TrainingStep(const Run& run, const Options& options);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// Starts a micro-step; see `Accumulation::begin_micro_step`. Throws
  /// `StateError` if the previous micro-step has not ended, because one
  /// micro-batch would then be counted twice.
  void begin_micro_step(std::optional<double> weight);
  void end_micro_step() { in_micro_step_ = false; }
  /// Computes the gradients of `loss`. Returns whether the gradients of a
  /// micro-batch group are now complete. Collective; see
  /// `Accelerator::backward`.
  bool backward(const at::Tensor& loss, const BackwardOptions& options);

  /// Starts a region in which ranks may run out of batches.
  void begin_joining() { joint_steps_.begin(); }
  /// Ends the region: this rank has no more batches, and takes part in the
  /// steps of the other ranks until no rank is training. Then all ranks take
  /// the parameters and buffers of a rank that took the most steps. Collective.
  void join();
  /// Ends the region without taking part in further steps.
  void stop_joining() { joint_steps_.end(); }

  SyncBatchNorms& batch_norms() { return batch_norms_; }

  /// Returns what a prepared scheduler needs from this step.
  std::shared_ptr<SchedulerContext> make_scheduler_context() const;

  /// Resets the counters and creates new shared objects, so that objects that
  /// were prepared before no longer follow this step.
  void restart();

  SyncRegions& regions() { return regions_; }
  const SyncRegions& regions() const { return regions_; }
  Accumulation& accumulation() { return accumulation_; }
  const Accumulation& accumulation() const { return accumulation_; }
  /// Returns the state that this step shares with the prepared loaders and
  /// schedulers, which may outlive the Accelerator.
  const std::shared_ptr<GradientState>& gradients() const { return gradients_; }
  /// Returns the loss scaling, which this step shares with the prepared
  /// schedulers.
  const std::shared_ptr<LossScaling>& scaling() const { return scaling_; }

  /// Returns the number of finished optimizer updates.
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  /// Counts updates that ran without `backward`, in a replayed CUDA graph.
  /// `count` may be negative.
  void add_updates(std::int64_t count) { updates_ += count; }

  /// Returns whether a checkpoint must contain the buffers of every rank,
  /// because they may differ now.
  bool has_rank_buffers() const;

 private:
  bool has_several_ranks() const { return run_.mesh.data_size() > 1; }
  Sync next_sync();
  std::vector<Strategy::Participant> participants(Sync sync) const;
  void run_engine(const at::Tensor& loss, const BackwardOptions& options);
  void finish_group(Sync sync);
  void scale_gradients(Sync sync) const;
  void broadcast_buffers();
  void warn_about_incomplete_group();

  Run run_;
  bool broadcasts_buffers_;
  Accumulation accumulation_;
  std::shared_ptr<GradientState> gradients_;
  std::shared_ptr<LossScaling> scaling_;
  SyncRegions regions_;
  bool in_micro_step_ = false;
  JointSteps joint_steps_;
  SyncBatchNorms batch_norms_;
  std::int64_t updates_ = 0;
  bool warned_incomplete_ = false;
};

}  // namespace accelerate
