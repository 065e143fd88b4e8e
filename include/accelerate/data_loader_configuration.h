// SPDX-License-Identifier: Apache-2.0
// How an Accelerator distributes the batches of its loaders to processes.
#pragma once

#include <cstdint>
#include <optional>

namespace accelerate {

/// Options for all prepared loaders, named as in Hugging Face Accelerate.
struct DataLoaderConfiguration {
  /// If true, a loader's `batch_size` is the total over all processes. If
  /// false, each process gets batches of `batch_size`.
  bool split_batches = false;
  /// If true, the main process reads the data and sends each process its batch.
  /// If false, each process reads its own batches. Default: true for streams,
  /// false for indexed datasets.
  std::optional<bool> dispatch_batches = std::nullopt;
  /// Whether to complete the last step with the epoch's first samples, so that
  /// every process gets the same number of batches.
  /// `DataLoaderBase::valid_rows` returns how many rows of a batch are real.
  bool even_batches = true;
  /// Whether to shuffle in the same order as Python's `SeedableRandomSampler`,
  /// which uses `randperm` seeded with epoch + seed. This order needs a table
  /// with one entry per sample.
  bool use_seedable_sampler = false;
  /// Seed for the sample order of loaders that set neither `seed` nor
  /// `generator`. Default: the seed of LibTorch's default generator on the main
  /// process.
  std::optional<std::uint64_t> data_seed = std::nullopt;
  /// Whether to copy batches to the device asynchronously.
  bool non_blocking = false;
};

}  // namespace accelerate
