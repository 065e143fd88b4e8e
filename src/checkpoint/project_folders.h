// SPDX-License-Identifier: Apache-2.0
// Where a run saves its checkpoints, and how it names them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "accelerate/accelerator_options.h"
#include "checkpoint/writer.h"

namespace accelerate {

/// The folders of one run and the number of its next checkpoint.
class ProjectFolders {
 public:
  /// Throws `ArgumentError` for options that contradict each other.
  explicit ProjectFolders(const AcceleratorOptions& options);

  const ProjectConfiguration& configuration() const { return project_; }

  /// Returns the folder for automatically numbered checkpoints. Throws
  /// `StateError` if automatic naming is off.
  std::filesystem::path checkpoints() const;
  /// Returns `folder` as a destination. If `folder` is empty, returns the next
  /// automatically numbered checkpoint.
  Destination destination(const std::filesystem::path& folder) const;

  /// Advances the next number past the number of the checkpoint that was just
  /// saved.
  void record_save(const SaveResult& saved);
  /// Advances the next number past the number of the checkpoint that was just
  /// loaded.
  void record_load(std::int64_t iteration);

 private:
  ProjectConfiguration project_;
};

}  // namespace accelerate
