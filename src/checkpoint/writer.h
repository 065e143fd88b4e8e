// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints. All ranks take part, in the foreground or in a background
// thread during training.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/group.h"
#include "accelerate/json.h"
#include "checkpoint/contents.h"
#include "checkpoint/parts.h"
#include "checkpoint/staging.h"
#include "checkpoint_directory/checksummed_file.h"
#include "checkpoint_directory/manifest.h"
#include "checkpoint_directory/staged_directory.h"

namespace accelerate {

/// Where a checkpoint is saved.
struct Destination {
  std::filesystem::path parent;
  std::string name;
  /// If true, the name is `checkpoint_<iteration>`; if this name is in use, the
  /// next free number is used instead of `iteration`. If false, a checkpoint
  /// that already has the name `name` is replaced.
  bool numbered = false;
  std::int64_t iteration = 0;
  /// Number of complete checkpoints to keep in `parent`. Default: all.
  std::optional<std::size_t> keep = std::nullopt;
};

/// The result of a save; the same on every rank.
struct SaveResult {
  std::filesystem::path path;
  std::int64_t iteration = 0;
};

/// The process groups that take part in a save.
struct WritingGroups {
  // NOLINTNEXTLINE(google-explicit-constructor): usually both are the same.
  WritingGroups(const Group& group) : writers(group), all(group) {}
  WritingGroups(Group writers_, Group all_)
      : writers(std::move(writers_)), all(std::move(all_)) {}

  /// The ranks that write one checkpoint: all ranks, or the ranks of a node.
  Group writers;
  /// All ranks. If each node has its own checkpoint, no node commits its
  /// checkpoint until all ranks have written their parts.
  Group all;
};

/// Saves checkpoints, one at a time.
///
/// The process groups must not be used for anything else: their collectives run
/// in a background thread during training. Rank 0 creates a folder, and each
/// rank writes its part into the folder. Once all parts are written, rank 0
/// adds the manifest and renames the folder.
///
/// Thread safety: only one thread may use an object at a time.
class CheckpointWriter {
 public:
  /// `staging` holds the copies that background saves write. `wait` prints a
  /// warning if a save takes longer than `warn_after`.
  explicit CheckpointWriter(
      WritingGroups groups,
      std::shared_ptr<Staging> staging = std::make_shared<Staging>(),
      std::chrono::milliseconds warn_after = std::chrono::seconds(30));
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for a pending save. If the save fails, prints the error to stderr.
  ~CheckpointWriter();

  /// Waits for a pending save, then saves a checkpoint. Collective. Throws
  /// `IoError` on every rank if any rank cannot write, and `StateError` on
  /// every rank if ranks have different tensors, or if their ranges do not
  /// cover each tensor exactly once. After either error, earlier checkpoints
  /// are unchanged and the process groups stay usable.
  SaveResult save(const CheckpointContents& contents, const Destination& to);

  /// Allocates memory for a copy of `contents` in a background thread, so that
  /// the first background save is faster.
  void prepare(const CheckpointContents& contents);

  /// Like `save`, but returns as soon as the tensors are copied. `wait` then
  /// returns the result.
  void save_in_background(
      const CheckpointContents& contents, const Destination& to);

  /// If `to` is numbered, makes its number larger than the numbers of all
  /// complete checkpoints on all nodes. The number is the same on every rank.
  /// Collective.
  void choose_number(Destination& to);

  /// Creates the folder for the next save early, so that hooks can write their
  /// own files into the checkpoint. Returns the folder for these files; the
  /// path is the same on every rank. Collective.
  std::filesystem::path open_for_hooks(const Destination& to);
  /// Removes the folder that `open_for_hooks` created. Must be called if no
  /// save follows.
  void discard_open_folder();

  /// Waits for a pending save and returns its result; empty if no save is
  /// pending. If the save failed, throws its error; the next call does not
  /// throw the error again. Prints a warning to stderr if the save takes too
  /// long.
  std::optional<SaveResult> wait();

 private:
  /// `manifest` holds only the run information; `write` adds the rest.
  SaveResult write(
      const Part& part,
      const Destination& to,
      Manifest manifest,
      WriteMode mode);
  SaveResult write_and_commit(
      const Part& part,
      const Destination& to,
      Manifest manifest,
      WriteMode mode);

  enum class Contents { tensors_only, with_hooks };
  /// Creates the folder for the next save on rank 0, unless `open_for_hooks`
  /// has already created it. Returns its path. Collective.
  std::filesystem::path open_folder(const Destination& to, Contents contents);
  /// Returns the report of rank 0 of `group_`, the ranks that write this
  /// checkpoint. `reports` has the reports of all ranks in the run. Collective.
  Json from_main_rank(const std::vector<Json>& reports);

  Group group_;
  Group all_;
  std::shared_ptr<Staging> staging_;
  /// The open folder, on rank 0 only. Set between `open_folder` and the commit.
  std::unique_ptr<StagedDirectory> folder_;
  /// The path of the open folder, on every rank.
  std::filesystem::path folder_path_;
  std::chrono::milliseconds warn_after_;
  std::filesystem::path pending_path_;
  std::future<SaveResult> pending_save_;
};

}  // namespace accelerate
