// SPDX-License-Identifier: Apache-2.0
#include "data/map_steps.h"

#include <algorithm>

#include "data/index_order.h"

namespace accelerate {

MapSteps::MapSteps(MapEpoch epoch) : epoch_(std::move(epoch)) {
  for (const ShardRules& rules : epoch_.rules) {
    shards_.emplace_back(epoch_.units, rules, epoch_.start);
    size_ = std::max(size_, shards_.back().size());
  }
  // No thread for a step that does not exist.
  const std::int64_t workers = std::min(epoch_.num_workers, size_);
  if (workers > 0) {
    pool_.emplace(
        workers,
        workers * epoch_.prefetch_factor,
        [this](std::int64_t k, std::int64_t worker) {
          return read(k, worker);
        });
  }
}

std::optional<Step> MapSteps::next() {
  return pool_ ? pool_->next() : read(next_++, 0);
}

std::optional<Step> MapSteps::read(std::int64_t k, std::int64_t worker) const {
  if (k >= size_) {
    return std::nullopt;
  }
  Step step;
  step.used = shards_.front().used_after(k);
  for (const BatchSamplerShard& shard : shards_) {
    step.portions.push_back(
        k < shard.size() ? read_portion(shard, k, worker) : Portion());
  }
  return step;
}

Portion MapSteps::read_portion(
    const BatchSamplerShard& shard, std::int64_t k, std::int64_t worker) const {
  const BatchRange range = shard.at(k);
  const auto wanted = indices(range);
  Portion portion;
  portion.batch = epoch_.source->load(
      {.indices = wanted, .key = epoch_.key, .worker = worker});
  portion.rows = static_cast<std::int64_t>(wanted.size());
  portion.valid_rows = !epoch_.batch_sampler  ? range.valid_rows
                       : range.valid_rows > 0 ? portion.rows
                                              : 0;
  portion.last = k + 1 == shard.size();
  return portion;
}

std::vector<std::int64_t> MapSteps::indices(const BatchRange& range) const {
  if (epoch_.batch_sampler) {
    auto batch = (*epoch_.batch_sampler)(range.begin % epoch_.units);
    for (const std::int64_t index : batch) {
      check_index("batch sampler", index, epoch_.dataset_size);
    }
    return batch;
  }
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(range.rows));
  for (std::int64_t i = 0; i < range.rows; ++i) {
    result.push_back(epoch_.order((range.begin + i) % epoch_.units));
  }
  return result;
}

}  // namespace accelerate
