// SPDX-License-Identifier: Apache-2.0
// Restores the accumulated gradients of an update that was unfinished when a
// checkpoint was saved.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/accelerator_options.h"
#include "checkpoint/contents.h"
#include "training/prepared_objects.h"

namespace accelerate {

/// The gradient sums that one rank takes from a checkpoint: its own sums if the
/// number of processes is unchanged, otherwise an equal share of the sums from
/// all ranks.
///
/// The checkpoint and the models must outlive this object.
class RestoredGradients {
 public:
  /// The position of this rank in the run that loads the checkpoint.
  struct Position {
    std::size_t process_index;
    std::size_t num_processes;
    std::size_t data_size;  ///< number of ranks that read different data
  };

  /// Checks which gradients fit the models' parameters. Does not change the
  /// models.
  RestoredGradients(
      const LoadedCheckpoint& loaded,
      const std::vector<PreparedModel>& models,
      Position position,
      AccumulationWeighting weighting);

  /// Messages about gradients that cannot be restored and are skipped.
  const std::vector<std::string>& problems() const { return problems_; }

  /// Returns whether the checkpoint contains gradient sums for this rank,
  /// because it was saved in the middle of gradient accumulation.
  bool any() const;
  /// Drops all saved gradients and adds `reason` to `problems`.
  void discard(const std::string& reason);

  /// Returns this rank's share of the total weight of the micro-batches that
  /// had been accumulated.
  double group_weight() const { return group_weight_; }

  /// Replaces the models' gradient sums with the restored sums and resets
  /// `.grad`.
  void apply() const;

 private:
  void find_sources();
  void check_weights();
  void check_shapes();
  void check_names();
  bool fits(std::size_t model, std::size_t parameter);
  at::Tensor sum_of(const std::string& name, const at::Tensor& like) const;

  const LoadedCheckpoint& loaded_;
  const std::vector<PreparedModel>& models_;
  Position position_;
  /// Whether this rank takes only the sums that it saved itself.
  bool takes_own_sums_ = false;
  /// The saved states of the ranks whose sums this rank adds up.
  std::vector<const TensorMap*> sources_;
  /// The number by which the added sums are divided.
  std::int64_t parts_ = 1;
  AccumulationWeighting weighting_;
  double group_weight_ = 0;
  /// For each model and parameter: whether the saved gradient has the
  /// parameter's shape.
  std::vector<std::vector<bool>> fits_;
  std::vector<std::string> problems_;
};

}  // namespace accelerate
