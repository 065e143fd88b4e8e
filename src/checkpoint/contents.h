// SPDX-License-Identifier: Apache-2.0
// The state that is saved to and loaded from a checkpoint.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "accelerate/json.h"
#include "accelerate/tensor_map.h"

namespace accelerate {

/// Which ranks list a range, and which ranks save it.
enum class RangeOwner {
  this_rank,   ///< other ranks may list other ranges of the same tensor; if
               ///< several ranks list the same range, one of them saves it
  every_rank,  ///< every rank lists the range with equal values; the ranks
               ///< divide the work of saving it
  main_rank,   ///< values may differ between ranks; rank 0 saves its own
};

/// Consecutive elements of a flattened tensor.
struct TensorRange {
  /// The name of the tensor.
  std::string name;
  /// The shape of the whole tensor.
  std::vector<std::int64_t> shape;
  /// The index of the first element.
  std::int64_t offset = 0;
  /// The elements, in any shape. Their type is the type of the whole tensor.
  at::Tensor values;
  RangeOwner owner = RangeOwner::this_rank;
};

/// Returns each tensor as one range that every rank lists. The tensors must be
/// the same on every rank.
std::vector<TensorRange> replicated(const TensorMap& tensors);

/// The state of a run on one rank. The keys of the maps are file names without
/// an extension, such as `model` and `optimizer_1`. A key is either in
/// `weights` or in `ranges`.
struct CheckpointContents {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  /// This process's rank in the whole run. If each node saves its own
  /// checkpoint, this process may have a different rank in the group that
  /// writes the checkpoint.
  int process_index = 0;
  /// The number of processes in the whole run.
  int num_processes = 1;
  /// Tensors that are the same on every rank. Each tensor is saved whole, under
  /// its own name.
  std::map<std::string, TensorMap> weights;
  /// Tensors that may differ between ranks, such as buffers. Only the tensors
  /// of rank 0 are saved, in the same file as the `weights` that have the same
  /// key.
  std::map<std::string, TensorMap> main_weights = {};
  /// The ranges that this rank has; it may have none. The ranges of all ranks
  /// must cover each tensor exactly once, except that several ranks may list
  /// the same range.
  std::map<std::string, std::vector<TensorRange>> ranges;
  /// JSON documents. Only the documents of rank 0 are saved.
  std::map<std::string, Json> documents;
  /// Tensors that belong to this rank. Every rank saves its own tensors.
  TensorMap rank_state;

  /// Changes the contents so that only rank 0 saves `weights` and the `ranges`
  /// with `RangeOwner::every_rank`. Needed when these values temporarily differ
  /// between ranks, as inside `LocalSGD`.
  void write_from_main_rank();
};

/// A range that a rank loads from a checkpoint.
struct RangeRequest {
  /// The name of the tensor.
  std::string name;
  /// The index of the first element in the flattened tensor.
  std::int64_t offset = 0;
  /// The number of elements.
  std::int64_t length = 0;
};

/// A verified checkpoint. The caller may keep the tensors in `ranges` and
/// `requested`, but must copy the tensors in `weights`, which may be views of
/// mapped files.
struct LoadedCheckpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t iteration = 0;
  std::map<std::string, TensorMap> weights;
  /// Whole tensors, assembled from the ranges in the checkpoint.
  std::map<std::string, TensorMap> ranges;
  /// The ranges that this rank requested, in the order of the requests. The
  /// values are one-dimensional. A key is in only one of `requested`, `weights`
  /// and `ranges`.
  std::map<std::string, std::vector<TensorRange>> requested;
  std::map<std::string, Json> documents;
  /// The state of each rank, indexed by the rank that saved it. If each node
  /// has its own checkpoint, the states of ranks on other nodes are empty.
  std::vector<TensorMap> rank_states;

  int world_size() const { return static_cast<int>(rank_states.size()); }
  bool has_all_ranks() const {
    return std::ranges::none_of(
        rank_states, [](const auto& state) { return state.empty(); });
  }
};

}  // namespace accelerate
