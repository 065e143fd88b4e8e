// SPDX-License-Identifier: Apache-2.0
// Computes which samples of an epoch each process gets. `DataLoader` uses the
// same arithmetic; this header is for code that reads data without a
// `DataLoader`.
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

/// How an epoch is divided into batches and distributed to processes.
struct ShardRules {
  std::int64_t batch_size = 1;
  std::int64_t num_processes = 1;
  std::int64_t process_index = 0;
  /// The number of devices that share the batches of a process.
  std::int64_t devices_per_process = 1;
  /// If false, each device gets batches of `batch_size`, and a step uses
  /// `batch_size × num_processes × devices_per_process` samples. If true, a
  /// step uses `batch_size` samples, and each device gets its share of these
  /// samples.
  bool split_batches = false;
  /// Whether to complete the last step with the epoch's first samples, so that
  /// every process gets the same number of batches of the same size.
  bool even_batches = true;
  /// Whether to drop an incomplete last step.
  bool drop_last = false;
  /// If true, one process reads for all processes, and the samples of an
  /// incomplete last step are divided equally between the processes. If false,
  /// these samples fill the batch of the first process, then the batch of the
  /// next process, and so on.
  bool dispatch_batches = false;
};

/// A batch: the samples at the positions `begin`, …, `begin + rows - 1` of an
/// epoch.
///
/// The first `valid_rows` rows are real. The other rows are padding: their
/// positions are past the end of the epoch, and each row repeats the sample at
/// its position modulo the number of samples.
struct BatchRange {
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  std::int64_t valid_rows = 0;

  bool operator==(const BatchRange&) const = default;
};

/// Computes one process's slice of the samples in each step, for data of
/// unknown length.
class ACCELERATE_API IterableDatasetShard {
 public:
  /// Throws `ArgumentError` for invalid values, such as `split_batches` with a
  /// `batch_size` that is not a multiple of `num_processes`.
  explicit IterableDatasetShard(const ShardRules& rules);

  /// Returns the number of samples that all processes together use in a step.
  std::int64_t window() const { return window_; }
  /// Returns this process's slice of a step with `samples` samples, relative to
  /// the beginning of the step. `samples` is at most `window()`, and less than
  /// `window()` only in the last step. If the result has no rows, this process
  /// gets no samples in the step.
  BatchRange slice(std::int64_t samples) const;
  const ShardRules& rules() const { return rules_; }

 private:
  ShardRules rules_;
  std::int64_t window_;
};

/// Computes the batches of one process, each in constant time.
class ACCELERATE_API BatchSamplerShard {
 public:
  /// Divides an epoch of `samples` samples, of which the first `start` are
  /// skipped because they were already used.
  ///
  /// Throws `ArgumentError` if `rules` are invalid or if `start` is not from 0
  /// to `samples`.
  BatchSamplerShard(
      std::int64_t samples, const ShardRules& rules, std::int64_t start = 0);

  /// Returns the number of batches of this process.
  std::int64_t size() const { return size_; }
  /// Returns batch `k`. Requires 0 ≤ `k` < `size()`.
  BatchRange at(std::int64_t k) const;
  /// Returns the number of samples that all processes together have used after
  /// step `k`, counted from the beginning of the epoch.
  std::int64_t used_after(std::int64_t k) const;

 private:
  std::int64_t window_size(std::int64_t k) const;

  IterableDatasetShard slices_;
  std::int64_t samples_;
  std::int64_t start_;
  std::int64_t size_;
};

}  // namespace accelerate
