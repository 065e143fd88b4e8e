// SPDX-License-Identifier: Apache-2.0
// Steps of a stream: read in order, one step ahead.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/sharding.h"
#include "data/ordered_pool.h"
#include "data/step.h"

namespace accelerate {

struct StreamEpoch {
  std::shared_ptr<detail::BatchSource> source;
  /// Samples that were used before: they are read and dropped, unless the
  /// stream can be taken to where it was.
  std::int64_t start = 0;
  Json state = {};
  /// How many samples were used at `state`.
  std::int64_t state_start = 0;
  std::vector<ShardRules> rules;
  /// Read on a thread of its own, that many steps ahead; 0: by the caller.
  std::int64_t ahead = 0;
  bool pin_memory = false;
  /// How long the loop waits for that thread.
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Every process reads the whole stream and keeps its slice of each step.
///
/// The step that follows is read before one is handed over: so the last is
/// known as such. The samples of the first step are kept, to complete the last.
class StreamSteps : public StepReader {
 public:
  explicit StreamSteps(StreamEpoch epoch);
  std::optional<Step> next() override;
  bool is_ready() override { return pool_ && pool_->is_ready(); }

 private:
  class Reader;

  // Shared with the worker: one that hangs outlives the loop.
  std::shared_ptr<Reader> reader_;
  std::optional<OrderedPool<Step>> pool_;
};

}  // namespace accelerate
