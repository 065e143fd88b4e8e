// SPDX-License-Identifier: Apache-2.0
#include "data/map_steps.h"

#include <algorithm>

#include "data/index_order.h"
#include "data/pinning.h"

namespace accelerate {

// The samples of each step, and the sample that each worker is reading.
class MapSteps::Plan {
 public:
  explicit Plan(MapEpoch epoch)
      : epoch_(std::move(epoch)),
        progress_(static_cast<std::size_t>(
            std::max<std::int64_t>(1, epoch_.pool.threads))) {
    for (const ShardRules& rules : epoch_.rules) {
      shards_.emplace_back(epoch_.units, rules, epoch_.start);
      size_ = std::max(size_, shards_.back().size());
    }
  }

  std::int64_t size() const { return size_; }
  const MapEpoch& epoch() const { return epoch_; }

  std::optional<Step> read(std::int64_t k, std::int64_t worker) {
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

  std::string describe_read(std::int64_t worker) const {
    return progress_[static_cast<std::size_t>(worker)].describe();
  }

 private:
  Portion read_portion(
      const BatchSamplerShard& shard, std::int64_t k, std::int64_t worker) {
    const BatchRange range = shard.at(k);
    auto samples = indices(range.begin, range.valid_rows);
    Portion portion;
    portion.valid_rows = std::ssize(samples);
    const auto padding =
        indices(range.begin + range.valid_rows, range.rows - range.valid_rows);
    samples.insert(samples.end(), padding.begin(), padding.end());
    portion.batch = epoch_.source->load(
        {.indices = samples,
         .key = epoch_.key,
         .worker = worker,
         .progress = &progress_[static_cast<std::size_t>(worker)]});
    portion.rows = static_cast<std::int64_t>(samples.size());
    portion.last = k + 1 == shard.size();
    if (epoch_.pin_memory) {
      pin(*epoch_.source, portion);
    }
    return portion;
  }

  // The samples of `count` units. A unit of a batch sampler is a batch.
  std::vector<std::int64_t> indices(
      std::int64_t begin, std::int64_t count) const {
    std::vector<std::int64_t> result;
    result.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t unit = (begin + i) % epoch_.units;
      if (!epoch_.batch_sampler) {
        result.push_back(epoch_.order(unit));
        continue;
      }
      for (const std::int64_t index : (*epoch_.batch_sampler)(unit)) {
        check_index("batch sampler", index, epoch_.dataset_size);
        result.push_back(index);
      }
    }
    return result;
  }

  const MapEpoch epoch_;
  std::vector<BatchSamplerShard> shards_;
  std::int64_t size_ = 0;
  std::vector<detail::ReadProgress> progress_;
};

MapSteps::MapSteps(MapEpoch epoch)
    : plan_(std::make_shared<Plan>(std::move(epoch))) {
  PoolOptions options = plan_->epoch().pool;
  // More threads than steps would have nothing to do.
  options.threads = std::min(options.threads, plan_->size());
  options.describe_read = [plan = plan_](std::int64_t worker) {
    return plan->describe_read(worker);
  };
  if (options.threads > 0) {
    pool_.emplace(options, [plan = plan_](std::int64_t k, std::int64_t worker) {
      return plan->read(k, worker);
    });
  }
}

std::optional<Step> MapSteps::next() {
  return pool_ ? pool_->next() : plan_->read(next_++, 0);
}

}  // namespace accelerate
