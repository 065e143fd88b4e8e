// SPDX-License-Identifier: Apache-2.0
// Collects the state of a run for a checkpoint.
#pragma once

#include <vector>

#include "accelerate/partial_state.h"
#include "accelerate/tensor_map.h"
#include "checkpoint/contents.h"
#include "checkpoint/registered_state.h"
#include "parallel/strategy.h"
#include "state/mesh.h"
#include "training/prepared_objects.h"
#include "training/training_step.h"

namespace accelerate {

/// The parts of a run that a checkpoint saves and restores.
struct RunParts {
  const PartialState& state;
  const Mesh& mesh;
  const Strategy& strategy;
  PreparedObjects& objects;
  TrainingStep& training;
};

/// Collects the state of one run. The results refer to the live tensors, which
/// are not copied.
class RunState {
 public:
  /// The arguments must outlive this object.
  RunState(const RunParts& run, const RegisteredState& registered)
      : run_(run), registered_(registered) {}

  /// Collects everything.
  CheckpointContents collect() const;
  /// Collects only models, optimizers, buffers that may differ between ranks,
  /// and accumulated gradient sums.
  CheckpointContents collect_models() const;
  /// Collects only models and optimizers.
  CheckpointContents collect_large() const;

  /// Returns one map of weights per model, for the user's hooks to change.
  std::vector<TensorMap> model_weights(
      const CheckpointContents& contents) const;
  /// Replaces the models' weights in `contents` with `weights`, which hooks
  /// have changed. Only rank 0 writes these weights, because hooks may differ
  /// between ranks.
  void take_hooked_weights(
      CheckpointContents& contents, std::vector<TensorMap> weights) const;

 private:
  void add_documents(CheckpointContents& contents) const;
  void add_registered_objects(CheckpointContents& contents) const;
  void add_random_states(CheckpointContents& contents) const;

  RunParts run_;
  const RegisteredState& registered_;
};

}  // namespace accelerate
