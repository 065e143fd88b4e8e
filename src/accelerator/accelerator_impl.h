// SPDX-License-Identifier: Apache-2.0
// The implementation of `Accelerator`.
#pragma once

#include <memory>

#include "accelerate/accelerator.h"
#include "accelerate/recordable_module.h"
#include "accelerator/run_trackers.h"
#include "checkpoint/checkpoint_session.h"
#include "parallel/strategy.h"
#include "state/mesh.h"
#include "training/mixed_precision.h"
#include "training/prepared_objects.h"
#include "training/training_step.h"

namespace accelerate {

/// Owns the objects that do the work of an `Accelerator`. Each object uses only
/// objects that are declared above it.
class Accelerator::Impl {
 public:
  Impl(PartialState state, const AcceleratorOptions& options);
  ~Impl();

  /// Returns the mesh, which determines which processes read different data.
  /// Throws `StateError` after `end_training`.
  const Mesh& data_mesh() const;
  /// Sets a prepared module's precision and whether the module may capture its
  /// steps.
  void set_up(torch::nn::Module& module);
  /// Removes all prepared objects and resets the counters. Keeps settings, open
  /// regions and checkpoint hooks.
  void forget_prepared();

  PartialState state;
  AcceleratorOptions options;
  DataLoaderConfiguration data;
  Mesh mesh;
  std::unique_ptr<Strategy> strategy;
  PreparedObjects objects;
  MixedPrecision precision;
  TrainingStep training;
  CheckpointSession checkpoints;
  RunTrackers trackers;
  bool triggered = false;

 private:
  /// Returns whether models capture their steps. Only the main process sets
  /// `disabled_reason`, so that the note is printed once.
  RecordPolicy record_policy() const;
  /// Undoes `set_up` for all modules that still exist.
  void release_modules();
};

}  // namespace accelerate
