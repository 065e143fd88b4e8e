// SPDX-License-Identifier: Apache-2.0
// Reads the files of one checkpoint, on one rank.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/contents.h"
#include "checkpoint/reader.h"
#include "checkpoint/saved_tensors.h"
#include "checkpoint/tensor_files.h"
#include "checkpoint_directory/checkpoints.h"

namespace accelerate {

/// Returns the names of the files that hold weights and ranges and may
/// therefore be large. `DirectoryReader` verifies these files while it reads
/// them.
std::set<std::string> large_files(const Manifest& manifest);

/// Reads one checkpoint. The arguments must outlive this object.
class DirectoryReader {
 public:
  /// `options` selects which of the files with requested ranges this rank
  /// verifies.
  DirectoryReader(
      std::filesystem::path folder,
      const Manifest& manifest,
      const VerifyOptions& options,
      const ChooseRanges& choose);

  /// Reads the files that are not in `large_files`. The caller must have
  /// verified these files.
  void read_small_files();

  /// Reads and verifies the `large_files`, and returns those that are damaged.
  /// Throws `ArgumentError` if this rank requests elements that the checkpoint
  /// does not have.
  std::vector<Damage> read_tensors();

  LoadedCheckpoint take() { return std::move(loaded_); }

 private:
  void check_parts(
      const std::string& stem, const std::vector<std::string>& parts) const;
  void read_rank_files();
  bool has_ranges(const std::string& stem) const;
  SavedTensors tensors_in(
      const std::string& stem, std::span<const TensorFileToRead> files) const;
  std::optional<std::vector<RangeRequest>> requests_for(
      const std::string& stem, const SavedTensors& tensors) const;
  void allocate(const std::string& stem, std::vector<TensorFileToRead> files);
  void allocate_requests(
      const std::string& stem,
      std::vector<TensorFileToRead> files,
      const SavedTensors& tensors,
      const std::vector<RangeRequest>& requests);
  std::vector<Damage> verify_requested_files() const;

  std::filesystem::path folder_;
  const Manifest& manifest_;
  const VerifyOptions& options_;
  const ChooseRanges& choose_;
  /// The files that this rank reads completely.
  std::vector<TensorFileToRead> files_;
  /// The files that contain requested ranges, and the byte ranges to read from
  /// them.
  std::vector<TensorFileToRead> requested_files_;
  std::vector<FileRange> requested_reads_;
  bool is_local_;
  LoadedCheckpoint loaded_;
};

}  // namespace accelerate
