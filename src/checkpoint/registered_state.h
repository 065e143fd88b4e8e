// SPDX-License-Identifier: Apache-2.0
// State and hooks that the user registered for checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/json.h"
#include "accelerate/tensor_map.h"

namespace accelerate {

/// An object that the user registered for checkpointing. Its state is either
/// JSON or tensors; the two functions for the other kind are empty.
struct RegisteredObject {
  std::function<Json()> save;
  std::function<void(const Json&)> load;
  std::function<TensorMap()> save_tensors;
  std::function<void(const TensorMap&)> load_tensors;
};

/// Functions that save and load a random state that the user registered.
struct RandomState {
  std::function<at::Tensor()> save;
  std::function<void(const at::Tensor&)> load;
};

/// Functions that save and load a small part of the run's state. A checkpoint
/// may lack this part. `save` returns null if there is nothing to save. `load`
/// must not fail.
struct RunDocument {
  std::function<Json()> save;
  std::function<void(const Json&)> load;
};

/// A hook that may change the weights of each model before they are saved or
/// after they are loaded. `folder` is the folder for hooks in the checkpoint.
using CheckpointHook = std::function<void(
    std::vector<TensorMap>& weights, const std::filesystem::path& folder)>;

/// Hooks, in the order in which they were added.
class CheckpointHooks {
 public:
  /// Adds a hook and returns a function that removes the hook. The returned
  /// function may be called after this object is destroyed.
  [[nodiscard]] std::function<void()> add(CheckpointHook hook);
  bool empty() const { return hooks_->empty(); }
  void run(std::vector<TensorMap>& weights, const std::filesystem::path& folder)
      const;

 private:
  std::shared_ptr<std::list<CheckpointHook>> hooks_ =
      std::make_shared<std::list<CheckpointHook>>();
};

/// Everything that the user registered for the checkpoints of one Accelerator.
/// `Accelerator::free_memory` does not reset this state.
struct RegisteredState {
  std::vector<RegisteredObject> objects;
  std::map<std::string, RandomState> random_states;
  /// Each key is the name of a member of `run.json`.
  std::map<std::string, RunDocument> run_documents;
  CheckpointHooks save_hooks;
  CheckpointHooks load_hooks;
};

}  // namespace accelerate
