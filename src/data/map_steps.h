// SPDX-License-Identifier: Apache-2.0
// Reads the batches of each step from an indexed dataset; steps can be read in
// any order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/sharding.h"
#include "data/ordered_pool.h"
#include "data/step.h"

namespace accelerate {

/// Options for reading one epoch of an indexed dataset.
struct MapEpoch {
  std::shared_ptr<detail::BatchSource> source = nullptr;
  std::function<std::int64_t(std::int64_t)> order = {};
  std::optional<BatchSampler> batch_sampler = std::nullopt;
  std::int64_t dataset_size = 0;
  /// Number of units (samples, or batches of a batch sampler) in the epoch.
  std::int64_t units = 0;
  /// Number of units that have already been used.
  std::int64_t start = 0;
  OrderKey key = {};
  /// The shard rules of the processes whose batches are read.
  std::vector<ShardRules> rules = {};
  bool pin_memory = false;
  /// Without threads, `next` reads in the calling thread.
  PoolOptions pool = {.threads = 0};
};

class MapSteps : public StepReader {
 public:
  explicit MapSteps(MapEpoch epoch);
  std::optional<Step> next() override;
  bool is_ready() override { return pool_ && pool_->is_ready(); }

 private:
  class Plan;

  // Shared with the workers, because a worker that hangs outlives the loop.
  std::shared_ptr<Plan> plan_;
  std::int64_t next_ = 0;
  std::optional<OrderedPool<Step>> pool_;
};

}  // namespace accelerate
