// SPDX-License-Identifier: Apache-2.0
// What an Accelerator knows about checkpoints.
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

/// An object that the user registered.
struct RegisteredObject {
  std::function<Json()> save;
  std::function<void(const Json&)> load;
  std::function<TensorMap()> save_tensors;
  std::function<void(const TensorMap&)> load_tensors;
};

/// Random numbers that the user registered.
struct RandomState {
  std::function<at::Tensor()> save;
  std::function<void(const at::Tensor&)> load;
};

/// Names, hooks, registered objects and the writer; `free_memory` keeps it.
class Checkpointing {
 public:
  /// Throws `ArgumentError` for options that contradict each other.
  explicit Checkpointing(const AcceleratorOptions& options);

  ProjectConfiguration project;
  std::vector<RegisteredObject> registered;
  std::map<std::string, RandomState> random_states;
  /// Shared with the regions that remove them.
  std::shared_ptr<std::list<Accelerator::StateHook>> save_hooks =
      std::make_shared<std::list<Accelerator::StateHook>>();
  std::shared_ptr<std::list<Accelerator::StateHook>> load_hooks =
      std::make_shared<std::list<Accelerator::StateHook>>();

  /// The next place of automatic naming, or the given folder.
  Destination destination(const std::filesystem::path& folder) const;
  /// Where automatic naming keeps checkpoints.
  std::filesystem::path folder() const;

  /// Collective at its first call.
  CheckpointWriter& writer(const PartialState& state);
  bool has_writer() const { return writer_ != nullptr; }
  /// Gets memory for the copies that background saves make, beside training:
  /// before the first save, once, for numbered checkpoints of all processes.
  bool wants_memory() const;
  bool has_memory() const { return got_memory_; }
  void forgo_memory() { got_memory_ = true; }
  void get_memory(const CheckpointContents& contents);
  void close_writer() { writer_.reset(); }
  /// Remembers what a finished save says.
  void note(const Saved& saved);

 private:
  std::shared_ptr<Staging> staging_ = std::make_shared<Staging>();
  bool got_memory_ = false;
  std::unique_ptr<CheckpointWriter> writer_;
};

}  // namespace accelerate
