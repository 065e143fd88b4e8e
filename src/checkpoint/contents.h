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

/// The state of a run, as seen by one rank. The keys of the maps are file names
/// without an extension, such as `model` and `optimizer_1`.
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
  /// Tensors that are the same on every rank. Each rank saves a range of the
  /// flattened tensors.
  std::map<std::string, TensorMap> ranges;
  /// If false, rank 0 alone saves all `ranges`.
  bool divides_ranges = true;
  /// JSON documents. Only the documents of rank 0 are saved.
  std::map<std::string, Json> documents;
  /// Tensors of this rank. Every rank saves its own.
  TensorMap rank_state;

  /// Changes the contents so that only rank 0 saves `weights` and `ranges`; the
  /// other ranks save just their `rank_state`. Needed when `weights` and
  /// `ranges` are temporarily out of sync between ranks, as inside LocalSGD.
  void write_from_main_rank();
};

/// A verified checkpoint. The caller may keep the tensors in `ranges`, but must
/// copy the tensors in `weights`, which may be views of mapped files.
struct LoadedCheckpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t iteration = 0;
  std::map<std::string, TensorMap> weights;
  std::map<std::string, TensorMap> ranges;
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
