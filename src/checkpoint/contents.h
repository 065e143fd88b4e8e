// SPDX-License-Identifier: Apache-2.0
// What goes into a checkpoint, and what comes out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "accelerate/json.h"
#include "accelerate/tensor_map.h"

namespace accelerate {

/// The state of a run as one rank sees it. Names are those of files without
/// their ending: `model`, `optimizer_1`.
struct CheckpointContents {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  /// The rank in the run, and its size: with a checkpoint on each node they
  /// are not those of the ranks that write together.
  int process_index = 0;
  int num_processes = 1;
  /// Equal on every rank, kept as whole tensors under their own names.
  std::map<std::string, TensorMap> weights;
  /// As rank 0 has it, beside `weights` of the same name: what ranks may have
  /// of their own, such as buffers.
  std::map<std::string, TensorMap> main_weights = {};
  /// Equal on every rank, kept as ranges of flat tensors.
  std::map<std::string, TensorMap> ranges;
  /// Otherwise `ranges` are as rank 0 has them, which writes them all.
  bool divides_ranges = true;
  /// As rank 0 has it.
  std::map<std::string, Json> documents;
  /// Of this rank alone.
  TensorMap own;

  /// Has rank 0 write all but `own`: ranks are not equal.
  void take_from_main();
};

/// A checkpoint that was verified. `ranges` may be adopted; `weights` may look
/// into files.
struct LoadedCheckpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t iteration = 0;
  std::map<std::string, TensorMap> weights;
  std::map<std::string, TensorMap> ranges;
  std::map<std::string, Json> documents;
  /// By the rank that saved it; empty for ranks of other nodes, where each
  /// node has a checkpoint.
  std::vector<TensorMap> own;

  int world_size() const { return static_cast<int>(own.size()); }
  bool has_all_ranks() const {
    return std::ranges::none_of(own, [](const auto& o) { return o.empty(); });
  }
};

}  // namespace accelerate
