// SPDX-License-Identifier: Apache-2.0
// Saves and loads the checkpoints of one run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "accelerate/accelerator_options.h"
#include "accelerate/checkpoint.h"
#include "checkpoint/project_folders.h"
#include "checkpoint/registered_state.h"
#include "checkpoint/run_state.h"
#include "checkpoint/writer.h"

namespace accelerate {

/// Saves and loads the checkpoints of one run: names them, collects and
/// restores the state of the run, runs the user's hooks, and owns the writer.
///
/// Thread safety: use this object only from the thread that runs the training
/// loop.
class CheckpointSession {
 public:
  /// The parts of `run` must outlive this object. Throws `ArgumentError` for
  /// options that contradict each other.
  CheckpointSession(const RunParts& run, const AcceleratorOptions& options);
  CheckpointSession(const CheckpointSession&) = delete;
  CheckpointSession& operator=(const CheckpointSession&) = delete;

  RegisteredState& registered() { return registered_; }
  const ProjectFolders& folders() const { return folders_; }

  /// Saves the state of the run in `folder`, or in the next automatically
  /// numbered checkpoint if `folder` is empty. Returns the path. Collective;
  /// see `Accelerator::save_state`.
  std::filesystem::path save(
      const std::filesystem::path& folder, const SaveStateOptions& options);
  /// Restores the state of the run from `folder`. Collective; see
  /// `Accelerator::load_state`.
  LoadStateReport load(
      const std::filesystem::path& folder, const LoadStateOptions& options);
  /// Restores the newest automatically numbered checkpoint that is complete.
  LoadStateReport load_newest(const LoadStateOptions& options);
  /// Waits until a background save has finished. If the save failed, rethrows
  /// its error.
  void wait();

  /// Returns a function that saves when a save is due; see
  /// `Accelerator::save_every`. The function must not outlive this object.
  std::function<bool()> save_every(const SaveEveryOptions& options);

  /// If a background save is likely, uses a background thread to allocate
  /// memory for the first background save. Must be called after each update.
  void reserve_memory();

  bool has_writer() const { return writer_ != nullptr; }
  /// Returns the writer. The first call creates the writer and is collective.
  CheckpointWriter& writer();
  void close_writer() { writer_.reset(); }

 private:
  /// Runs `RunState::collect` and the user's save hooks. If a registered object
  /// or a hook throws on any rank, all ranks throw. Collective.
  CheckpointContents collect(const Destination& to);
  void run_save_hooks(
      CheckpointContents& contents,
      const Destination& to,
      const std::string& context);
  void write_from_main_rank(CheckpointContents& contents);
  LoadStateReport restore_from(
      LoadedCheckpoint loaded,
      const std::filesystem::path& path,
      const LoadStateOptions& options);

  RunParts run_;
  RegisteredState registered_;
  RunState run_state_;
  ProjectFolders folders_;
  std::shared_ptr<Staging> staging_ = std::make_shared<Staging>();
  bool memory_reserved_ = false;
  bool warned_unsynchronized_ = false;
  std::unique_ptr<CheckpointWriter> writer_;
};

}  // namespace accelerate
