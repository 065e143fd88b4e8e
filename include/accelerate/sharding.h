// SPDX-License-Identifier: Apache-2.0
// Which samples of an epoch each process gets: arithmetic on positions, the
// same that `DataLoader` uses, for code that reads data in its own way.
//
//     const accelerate::BatchSamplerShard shard(
//         dataset_size,
//         {.batch_size = 8, .num_processes = 4, .process_index = 1});
//     for (std::int64_t k = 0; k < shard.size(); ++k) {
//       const auto [begin, rows, valid_rows] = shard.at(k);
//     }
#pragma once

#include <cstdint>

#include "accelerate/export.h"

namespace accelerate {

/// How an epoch is cut into batches and dealt to processes.
struct ShardRules {
  std::int64_t batch_size = 1;
  std::int64_t num_processes = 1;
  std::int64_t process_index = 0;
  /// Off: each process gets batches of `batch_size`, a step uses
  /// `batch_size × num_processes` samples. On: a step uses `batch_size`
  /// samples, and each process gets its share of them.
  bool split_batches = false;
  /// Completes the last step with the epoch's first samples, so that every
  /// process gets as many batches, of the same size.
  bool even_batches = true;
  /// Leaves out a last step that is not complete.
  bool drop_last = false;
  /// One process reads for all: an incomplete last step is dealt out in equal
  /// parts instead of filling one process after the other.
  bool dispatch_batches = false;
};

/// A batch as positions `begin`, `begin + 1`, … of the epoch.
///
/// The first `valid_rows` are real. The others are padding: they lie behind
/// the end of the epoch and mean the sample at their position modulo the
/// number of samples.
struct BatchRange {
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  std::int64_t valid_rows = 0;

  bool operator==(const BatchRange&) const = default;
};

/// One process's slice of the samples of a step, for data of unknown length.
class ACCELERATE_API IterableDatasetShard {
 public:
  /// Throws `ArgumentError` for numbers that cannot work, such as a
  /// `batch_size` that `split_batches` cannot divide.
  explicit IterableDatasetShard(const ShardRules& rules);

  /// Samples that all processes together use in a step.
  std::int64_t window() const { return window_; }
  /// This process's slice of a step with `samples` samples (at most
  /// `window()`; fewer only in the last step), relative to its begin. No rows:
  /// the process has no part in it.
  BatchRange slice(std::int64_t samples) const;
  const ShardRules& rules() const { return rules_; }

 private:
  ShardRules rules_;
  std::int64_t window_;
};

/// All batches of one process, each found in constant time.
class ACCELERATE_API BatchSamplerShard {
 public:
  /// An epoch of `samples` samples, of which the first `start` are left out
  /// because they were used before.
  ///
  /// Throws `ArgumentError` as above, and unless 0 ≤ `start` ≤ `samples`.
  BatchSamplerShard(
      std::int64_t samples, const ShardRules& rules, std::int64_t start = 0);

  /// Batches of this process.
  std::int64_t size() const { return size_; }
  /// Batch `k`, 0 ≤ `k` < `size()`.
  BatchRange at(std::int64_t k) const;
  /// Samples that all processes together have used after step `k`, counted
  /// from the begin of the epoch.
  std::int64_t used_after(std::int64_t k) const;

 private:
  std::int64_t window_size(std::int64_t k) const;

  IterableDatasetShard slices_;
  std::int64_t samples_;
  std::int64_t start_;
  std::int64_t size_;
};

}  // namespace accelerate
