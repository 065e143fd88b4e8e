// SPDX-License-Identifier: Apache-2.0
// The weights that the models of a run load from a checkpoint.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/contents.h"
#include "checkpoint/registered_state.h"
#include "training/prepared_objects.h"

namespace accelerate {

/// The weights that the models of one rank load, after the user's hooks have
/// run.
class RestoredWeights {
 public:
  /// Calls the hooks, then checks which weights fit the models. Does not copy
  /// weights into the models; `apply` does. `rank_state` is the state that this
  /// rank saved; null if the number of processes has changed.
  ///
  /// If a hook throws, throws `StateError` with the hook's message.
  RestoredWeights(
      const LoadedCheckpoint& loaded,
      const std::vector<PreparedModel>& models,
      const TensorMap* rank_state,
      const CheckpointHooks& hooks,
      const std::filesystem::path& folder);

  /// Messages about weights that are skipped because they do not fit the
  /// models, or converted because their type differs from the type in the
  /// model.
  const std::vector<std::string>& problems() const { return problems_; }

  /// Copies to each model the weights that fit.
  void apply() const;

 private:
  /// The index of a model and the name of a weight.
  using Weight = std::pair<std::size_t, std::string>;

  void take(const LoadedCheckpoint& loaded, const TensorMap* rank_state);
  void run_hooks(
      const CheckpointHooks& hooks, const std::filesystem::path& folder);
  void read_kept_out(const Json& run);
  void check_model(std::size_t index, const PreparedModel& model);
  void check_weight(
      const std::string& label,
      const std::string& name,
      const at::Tensor& here,
      const at::Tensor& saved);
  void check_missing(const Weight& weight);
  void add_missing_file(std::size_t model);

  /// For each model: whether the checkpoint has a file for its weights.
  std::vector<bool> has_file_;
  /// For each model: the saved weights that no weight of the model has matched
  /// yet.
  std::vector<TensorMap> weights_;
  bool has_hooks_;
  /// The weights that this run's load hooks removed.
  std::set<Weight> hooked_;
  /// The weights that save hooks removed when the checkpoint was saved.
  std::set<Weight> kept_out_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to, from
  std::vector<std::string> problems_;
};

}  // namespace accelerate
