// SPDX-License-Identifier: Apache-2.0
// Saves and loads the checkpoints of an Accelerator.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/accelerator.h"
#include "accelerate/checkpoint.h"
#include "accelerate/tensor_map.h"
#include "checkpoint/contents.h"
#include "checkpoint/writer.h"

namespace accelerate {

/// An object that the user registered for checkpointing.
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

/// Holds what an Accelerator needs for checkpoints: the project configuration,
/// hooks, registered objects and the writer. `Accelerator::free_memory` resets
/// none of these.
class CheckpointManager {
 public:
  /// Throws `ArgumentError` for options that contradict each other.
  explicit CheckpointManager(const AcceleratorOptions& options);

  ProjectConfiguration project;
  std::vector<RegisteredObject> registered;
  std::map<std::string, RandomState> random_states;
  /// The hooks, shared with the `Region` objects that remove a hook when they
  /// end.
  std::shared_ptr<std::list<Accelerator::StateHook>> save_hooks =
      std::make_shared<std::list<Accelerator::StateHook>>();
  std::shared_ptr<std::list<Accelerator::StateHook>> load_hooks =
      std::make_shared<std::list<Accelerator::StateHook>>();

  /// Returns `folder_path` as a destination. If `folder_path` is empty, returns
  /// the next automatically numbered checkpoint.
  Destination destination(const std::filesystem::path& folder_path) const;
  /// Returns the folder for automatically numbered checkpoints. Throws
  /// `StateError` if automatic naming is off.
  std::filesystem::path folder() const;

  /// Returns the writer. The first call creates the writer and is collective.
  CheckpointWriter& writer(const PartialState& state);
  bool has_writer() const { return writer_ != nullptr; }
  /// Whether `reserve_memory` should be called now. True until memory is
  /// reserved or a writer exists, but only if checkpoints are numbered
  /// automatically and all processes write one checkpoint together.
  bool wants_memory() const;
  bool memory_reserved() const { return memory_reserved_; }
  /// Makes `wants_memory` return false.
  void skip_memory() { memory_reserved_ = true; }
  /// Allocates memory for background saves in a background thread, unless free
  /// memory is scarce.
  void reserve_memory(const CheckpointContents& contents);
  void close_writer() { writer_.reset(); }
  /// Makes the next automatic number larger than the number of the checkpoint
  /// that was just saved.
  void record_save(const SaveResult& saved);

 private:
  std::shared_ptr<Staging> staging_ = std::make_shared<Staging>();
  bool memory_reserved_ = false;
  std::unique_ptr<CheckpointWriter> writer_;
};

}  // namespace accelerate
