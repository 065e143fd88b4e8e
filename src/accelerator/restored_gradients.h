// SPDX-License-Identifier: Apache-2.0
// Gradients of an accumulation that a checkpoint was saved in the middle of.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/accelerator_options.h"
#include "accelerator/accelerator_impl.h"
#include "checkpoint/contents.h"

namespace accelerate {

/// What one rank of a run takes of the sums that a checkpoint has: its own at
/// the same number of processes, otherwise an equal part of all.
///
/// The checkpoint and the models must outlive it.
class RestoredGradients {
 public:
  struct Place {
    std::size_t rank;
    std::size_t ranks;
  };

  /// Finds out what fits, and changes nothing.
  RestoredGradients(
      const LoadedCheckpoint& loaded,
      const std::vector<PreparedModel>& models,
      Place place,
      AccumulationWeighting weighting);

  /// What does not, and is left out.
  const std::vector<std::string>& problems() const { return problems_; }

  /// Whether the checkpoint is from the middle of an accumulation.
  bool any() const;
  /// Leaves all of it out.
  void discard(const std::string& why);

  /// What the micro-batches so far weigh, this rank's part of it.
  double group_weight() const { return group_weight_; }

  /// Gives the models their sums, and takes away what they had.
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
  Place place_;
  /// Whose sums this rank takes, and by what it divides them.
  bool takes_own_ = false;
  std::vector<const TensorMap*> sources_;
  std::int64_t parts_ = 1;
  AccumulationWeighting weighting_;
  double group_weight_ = 0;
  /// By model and parameter.
  std::vector<std::vector<bool>> fits_;
  std::vector<std::string> problems_;
};

}  // namespace accelerate
