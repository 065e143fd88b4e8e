// SPDX-License-Identifier: Apache-2.0
// Weights that a checkpoint has for the models of a run.
#pragma once

#include <filesystem>
#include <list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/accelerator.h"
#include "accelerator/accelerator_impl.h"
#include "checkpoint/contents.h"

namespace accelerate {

/// What the models of one rank take, after the user's hooks have seen it.
class RestoredWeights {
 public:
  using Hooks = std::list<Accelerator::StateHook>;

  /// Calls the hooks, then finds out what fits, and changes nothing itself.
  /// `own` is what this rank has saved, null at another number of processes.
  ///
  /// Throws `StateError` with what a hook threw.
  RestoredWeights(
      const LoadedCheckpoint& loaded,
      const std::vector<PreparedModel>& models,
      const TensorMap* own,
      const Hooks& hooks,
      const std::filesystem::path& folder);

  /// What does not, and is left out; of another type: converted.
  const std::vector<std::string>& problems() const { return problems_; }

  void apply() const;

 private:
  /// The number of a model and a name in it.
  using Weight = std::pair<std::size_t, std::string>;

  void take(const LoadedCheckpoint& loaded, const TensorMap* own);
  void run_hooks(const Hooks& hooks, const std::filesystem::path& folder);
  void read_kept_out(const Json& run);
  void check_model(std::size_t index, const PreparedModel& model);
  void check_weight(
      const std::string& label,
      const std::string& name,
      const at::Tensor& here,
      const at::Tensor& saved);
  void check_missing(const Weight& weight);

  /// Whether the checkpoint has the model, and what of it is left to take.
  std::vector<bool> is_saved_;
  std::vector<TensorMap> weights_;
  bool has_hooks_;
  std::set<Weight> hooked_;    // taken out by hooks now
  std::set<Weight> kept_out_;  // taken out by hooks when it was saved
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to, from
  std::vector<std::string> problems_;
};

}  // namespace accelerate
