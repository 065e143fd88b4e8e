// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints, all ranks together, now or while training goes on.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/group.h"
#include "checkpoint/contents.h"
#include "checkpoint/parts.h"
#include "checkpoint/staging.h"
#include "folders/manifest.h"
#include "folders/staged_folder.h"
#include "folders/summed_file.h"

namespace accelerate {

/// Where a checkpoint goes.
struct Destination {
  std::filesystem::path parent;
  std::string name;
  /// Takes the next free number when `checkpoint_<iteration>` is taken;
  /// otherwise a checkpoint of that name is replaced.
  bool numbered = false;
  std::int64_t iteration = 0;
  /// So many stay in `parent`.
  std::optional<std::size_t> keep = std::nullopt;
};

/// What came of it, on every rank.
struct Saved {
  std::filesystem::path path;
  std::int64_t iteration = 0;
};

/// Who saves.
struct WritingGroups {
  // NOLINTNEXTLINE(google-explicit-constructor): most often they are one.
  WritingGroups(const Group& one) : together(one), all(one) {}
  WritingGroups(Group writers, Group everybody)
      : together(std::move(writers)), all(std::move(everybody)) {}

  /// The ranks that write one checkpoint together: all, or those of a node.
  Group together;
  /// All ranks: where each node has a checkpoint, all have it or none.
  Group all;
};

/// Saves one checkpoint after the other.
///
/// The groups are the writer's own: their collectives run in a thread beside
/// training. Rank 0 makes the folder, each rank writes its part, rank 0 adds
/// the manifest and gives the folder its name once every rank has written.
///
/// Thread safety: one thread at a time.
class CheckpointWriter {
 public:
  /// `staging` holds the copies of background saves. `patience` is how long a
  /// wait may take before it is worth a warning.
  explicit CheckpointWriter(
      WritingGroups groups,
      std::shared_ptr<Staging> staging = std::make_shared<Staging>(),
      std::chrono::milliseconds patience = std::chrono::seconds(30));
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Finishes what is under way; an error goes to stderr.
  ~CheckpointWriter();

  /// Collective. Throws `IoError` on every rank when one of them cannot write;
  /// what was there before is then untouched and the group usable.
  Saved save(const CheckpointContents& contents, const Destination& to);

  /// Gets memory for the copies of such contents, beside training, before the
  /// first one is made.
  void prepare(const CheckpointContents& contents);

  /// As `save`, but returns once the state is copied; waits for an earlier one
  /// first. The outcome comes from `wait`.
  void save_in_background(
      const CheckpointContents& contents, const Destination& to);

  /// Takes for a numbered checkpoint the number above all that are there, on
  /// any node, the same on every rank. Collective.
  void choose_number(Destination& to);

  /// Makes the folder of the next save ahead of it, for hooks that write files
  /// of their own; returns where, the same on every rank. They become part of
  /// the checkpoint. Collective.
  std::filesystem::path open_for_hooks(const Destination& to);
  /// Removes that folder: there will be no save.
  void discard_open();

  /// Waits for what is under way; throws what went wrong there, once. Says on
  /// stderr what it waits for when that takes long.
  std::optional<Saved> wait();

 private:
  /// The manifest lacks the files only.
  Saved write(
      const Part& part, const Destination& to, Manifest manifest, WriteVia via);
  Saved write_and_commit(
      const Part& part, const Destination& to, Manifest manifest, WriteVia via);

  enum class Contents { ours, with_hooks };
  /// Makes the folder on rank 0, unless there is one; returns its path.
  std::filesystem::path open_folder(const Destination& to, Contents contents);

  Group group_;
  Group all_;
  std::shared_ptr<Staging> staging_;
  /// Between `open_folder` and the commit: the folder, on rank 0, and its path.
  std::unique_ptr<StagedFolder> folder_;
  std::filesystem::path folder_path_;
  std::chrono::milliseconds patience_;
  std::filesystem::path under_way_at_;
  std::future<Saved> under_way_;
};

}  // namespace accelerate
