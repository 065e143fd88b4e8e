// SPDX-License-Identifier: Apache-2.0
// Divides a checkpoint among ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "accelerate/json.h"
#include "accelerate/tensor_map.h"
#include "checkpoint/contents.h"

namespace accelerate {

/// One safetensors file.
struct TensorFile {
  std::string name;
  TensorMap tensors;
};

/// The files that one rank writes.
struct Part {
  std::vector<TensorFile> tensors;
  /// JSON documents with their file names. Empty except on rank 0.
  std::vector<std::pair<std::string, Json>> documents;
  /// For each base name of a file, such as `model`: a digest of the names,
  /// types and shapes of all its tensors, including those that other ranks
  /// write. The digests must be the same on every rank.
  std::map<std::string, std::string> layouts;
};

/// Returns how many ranks divide the writing of `bytes` bytes: as many as can
/// write at least 8 MiB each, but at least 1 and at most `world_size`.
int writers_for(std::uint64_t bytes, int world_size);

/// Returns the part of a checkpoint that one rank writes. Each rank computes
/// its own part without communication. The parts form a complete checkpoint
/// only if `layouts` is the same on all ranks.
///
/// The tensors of a part are the tensors of `contents`, or views of them.
Part part_of(const CheckpointContents& contents, int rank, int world_size);

/// Returns a name such as `model-00002-of-00004.safetensors` if `part` is 1
/// (parts are counted from 0) and `parts` is 4, or `model.safetensors` if
/// `parts` is 1.
std::string tensor_file_name(const std::string& name, int part, int parts);

/// Returns the name of the file for the tensors that belong to one rank.
std::string rank_file_name(int rank);

/// Returns the name of a range of a flattened tensor, such as
/// `head.weight.exp_avg@4096`. `offset` is the index of the first element.
std::string range_name(const std::string& tensor, std::int64_t offset);

}  // namespace accelerate
