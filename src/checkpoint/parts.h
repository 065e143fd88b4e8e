// SPDX-License-Identifier: Apache-2.0
// Which rank writes what.
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

/// What one rank writes.
struct Part {
  std::vector<TensorFile> tensors;
  /// Of rank 0 only.
  std::vector<std::pair<std::string, Json>> documents;
  /// By file: what every rank must agree on for the parts to fit together.
  std::map<std::string, std::string> forms;
};

/// How many ranks share the writing of so many bytes: all of them, unless
/// that is so little that further files cost more than they save.
int writers_for(std::uint64_t bytes, int world_size);

/// Deals a checkpoint out. The parts of all ranks together are the whole, and
/// each rank works out its own without asking, so that `forms` has to be the
/// same on all.
///
/// The tensors of a part are those of `contents`, or views into them.
Part part_of(const CheckpointContents& contents, int rank, int world_size);

/// `model.safetensors`, or `model-00002-of-00004.safetensors`.
std::string tensor_file_name(const std::string& name, int part, int parts);

/// The file of what belongs to one rank alone.
std::string own_file_name(int rank);

/// A piece of a flat tensor: `head.weight.exp_avg@4096`.
std::string range_name(const std::string& tensor, std::int64_t offset);

}  // namespace accelerate
