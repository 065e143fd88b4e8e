// SPDX-License-Identifier: Apache-2.0
// Divides a checkpoint among ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
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

/// A range without its values.
struct RangeEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

/// The ranges of one key, such as `optimizer`, on one rank.
struct RankRanges {
  /// The tensors that this rank may write, named by `range_name`: all of
  /// `own`, and this rank's part of `divided`.
  TensorMap tensors;
  /// The ranges that every rank lists.
  std::vector<RangeEntry> divided;
  /// The number of ranks that divide the writing of `divided`; 0 if `divided`
  /// has no elements.
  int writers = 0;
  /// The ranges that this rank lists; other ranks may list the same or
  /// different ranges.
  std::vector<RangeEntry> own;
};

/// The part of a checkpoint that one rank writes.
struct Part {
  /// This process's rank in the whole run.
  int process_index = 0;
  std::vector<TensorFile> tensors;
  /// The ranges by key. `assign_ranges` turns them into files.
  std::map<std::string, RankRanges> ranges;
  /// JSON documents with their file names. Empty except on rank 0.
  std::vector<std::pair<std::string, Json>> documents;
  /// For each key: the types and shapes, by name, of all tensors that must be
  /// the same on every rank, including those that other ranks write.
  std::map<std::string, std::map<std::string, std::string>> layouts;

  /// Returns the size of all tensors.
  std::uint64_t bytes() const;
};

/// Returns how many ranks divide the writing of `bytes` bytes: as many as can
/// write at least 8 MiB each, but at least 1 and at most `world_size`.
int writers_for(std::uint64_t bytes, int world_size);

/// Returns the part of a checkpoint that one rank writes. Each rank computes
/// its own part without communication. The parts form a complete checkpoint
/// only if `layouts` is the same on all ranks, and if `assign_ranges` accepts
/// the ranges of all ranks.
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

/// Returns text such as `Float[3, 6]`.
std::string describe_type(
    c10::ScalarType dtype, const std::vector<std::int64_t>& shape);

/// Returns text such as `[4096, 8192)`: the elements of a range.
std::string describe_range(std::int64_t offset, std::int64_t length);

/// Returns the number of elements of a tensor.
std::int64_t elements_in(const std::vector<std::int64_t>& shape);

}  // namespace accelerate
