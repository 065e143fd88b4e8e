// SPDX-License-Identifier: Apache-2.0
// Reads the steps of a stream (a dataset without indices; see
// accelerate/dataset.h) in order, one step ahead.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "accelerate/sharding.h"
#include "data/ordered_pool.h"
#include "data/step.h"

namespace accelerate {

struct StreamEpoch {
  std::shared_ptr<detail::BatchSource> source;
  /// Number of samples that have already been used. The reader skips these
  /// samples: it restores `state`, if any, then reads and drops the samples
  /// that `state` does not cover.
  std::int64_t start = 0;
  /// A saved state of the stream; null if there is none.
  Json state = {};
  /// Number of samples that had been used when `state` was saved.
  std::int64_t state_start = 0;
  /// The shard rules of the processes whose batches are read.
  std::vector<ShardRules> rules;
  bool pin_memory = false;
  /// At most one thread is used. Without threads, `next` reads in the calling
  /// thread.
  PoolOptions pool = {.threads = 0};
};

/// Reads the whole stream, but keeps only the slices of each step that belong
/// to the processes in `StreamEpoch::rules`.
///
/// Reading one step ahead shows which step is the last. If all batches must
/// have the same size, the samples of the first step are kept to fill up the
/// last step.
class StreamSteps : public StepReader {
 public:
  explicit StreamSteps(StreamEpoch epoch);
  std::optional<Step> next() override;
  bool is_ready() override { return pool_ && pool_->is_ready(); }

 private:
  class Reader;

  // Shared with the worker, because a worker that hangs outlives the loop.
  std::shared_ptr<Reader> reader_;
  std::optional<OrderedPool<Step>> pool_;
};

}  // namespace accelerate
