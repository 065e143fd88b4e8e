// SPDX-License-Identifier: Apache-2.0
// How an Accelerator deals the batches of its loaders to processes.
#pragma once

#include <cstdint>
#include <optional>

namespace accelerate {

/// The peer's `DataLoaderConfiguration`; applies to every prepared loader.
struct DataLoaderConfiguration {
  /// On: a loader's `batch_size` is that of all processes together. Off: each
  /// process gets batches of `batch_size`.
  bool split_batches = false;
  /// On: the main process reads and sends each process its batch. Off: each
  /// process reads its own. Left out: on for streams, off for datasets with an
  /// index.
  std::optional<bool> dispatch_batches = std::nullopt;
  /// Completes the last step with the epoch's first samples, so that every
  /// process gets as many batches; `valid_rows()` tells which rows are real.
  bool even_batches = true;
  /// Shuffles in the order of the peer's seedable sampler: LibTorch's
  /// `randperm` seeded with epoch + seed, a table of the dataset's length.
  bool use_seedable_sampler = false;
  /// Seed of the order for loaders that have none of their own; left out:
  /// that of LibTorch's default generator on the main process.
  std::optional<std::uint64_t> data_seed = std::nullopt;
  /// Lets copies to a device run while the program goes on.
  bool non_blocking = false;
};

}  // namespace accelerate
