// SPDX-License-Identifier: Apache-2.0
#include "accelerate/sharding.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

void check_split(const ShardRules& rules) {
  const std::int64_t parts = rules.num_processes * rules.devices_per_process;
  if (rules.split_batches && rules.batch_size % parts != 0) {
    throw ArgumentError(
        str_cat(
            "`split_batches` cannot divide a `batch_size` of ",
            rules.batch_size,
            " among ",
            parts,
            rules.devices_per_process == 1 ? " processes" : " devices"),
        str_cat("pass a `batch_size` that is a multiple of ", parts));
  }
}

void check_rules(const ShardRules& rules) {
  if (rules.batch_size < 1) {
    throw ArgumentError(
        str_cat("`batch_size` is ", rules.batch_size), "pass 1 or more");
  }
  if (rules.num_processes < 1 || rules.process_index < 0 ||
      rules.process_index >= rules.num_processes) {
    throw ArgumentError(
        str_cat(
            "`process_index` is ",
            rules.process_index,
            ", but the data is divided among ",
            rules.num_processes,
            " processes"),
        "pass an index from 0 to `num_processes` - 1");
  }
  check_split(rules);
}

}  // namespace

IterableDatasetShard::IterableDatasetShard(const ShardRules& rules)
    : rules_(rules) {
  check_rules(rules);
  window_ = rules.split_batches ? rules.batch_size
                                : rules.batch_size * rules.num_processes *
                                      rules.devices_per_process;
}

BatchRange IterableDatasetShard::slice(std::int64_t samples) const {
  const std::int64_t r = rules_.process_index;
  const std::int64_t p = rules_.num_processes;
  if (samples == 0 || (samples < window_ && rules_.drop_last)) {
    return {};
  }
  if (rules_.dispatch_batches && !rules_.even_batches) {
    const std::int64_t base = samples / p;
    const std::int64_t rest = samples % p;
    const std::int64_t rows = base + (r < rest ? 1 : 0);
    return {r * base + std::min(r, rest), rows, rows};
  }
  const std::int64_t width =
      rules_.dispatch_batches ? (samples + p - 1) / p : window_ / p;
  const std::int64_t begin = r * width;
  const std::int64_t valid =
      std::clamp<std::int64_t>(samples - begin, 0, width);
  return {begin, rules_.even_batches ? width : valid, valid};
}

BatchSamplerShard::BatchSamplerShard(
    std::int64_t samples, const ShardRules& rules, std::int64_t start)
    : slices_(rules), samples_(samples), start_(start) {
  if (start < 0 || start > samples) {
    throw ArgumentError(
        str_cat(
            "`start` is ", start, ", but the size of the epoch is ", samples),
        "pass a position from 0 to the size of the epoch");
  }
  const std::int64_t left = samples - start;
  const std::int64_t rest = left % slices_.window();
  size_ = left / slices_.window() + (slices_.slice(rest).rows > 0 ? 1 : 0);
}

std::int64_t BatchSamplerShard::window_size(std::int64_t k) const {
  return std::min(slices_.window(), samples_ - start_ - k * slices_.window());
}

BatchRange BatchSamplerShard::at(std::int64_t k) const {
  if (k < 0 || k >= size_) {
    throw ArgumentError(
        str_cat(
            "batch index ",
            k,
            " is out of range; the number of batches in this shard is ",
            size_),
        "pass an index from 0 to `size()` - 1");
  }
  BatchRange range = slices_.slice(window_size(k));
  range.begin += start_ + k * slices_.window();
  return range;
}

std::int64_t BatchSamplerShard::used_after(std::int64_t k) const {
  return start_ + k * slices_.window() +
         std::max<std::int64_t>(window_size(k), 0);
}

}  // namespace accelerate
