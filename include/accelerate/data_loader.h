// SPDX-License-Identifier: Apache-2.0
// Reads batches from any dataset, in any order, on any number of processes.
//
//     accelerate::DataLoader loader(
//         dataset, {.batch_size = 8, .shuffle = true, .num_workers = 2});
//     accelerator.prepare(loader);
//     for (auto& batch : loader) {
//       train(batch);
//     }
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/collate.h"
#include "accelerate/data_loader_base.h"
#include "accelerate/dataset.h"
#include "accelerate/detail/typed_sources.h"
#include "accelerate/sampler.h"

namespace accelerate {
namespace detail {

/// Placeholder type for loaders without a custom collate function.
struct DefaultCollate {};
/// Placeholder type for the batch or the collate function where
/// `default_collate` cannot be used.
struct NoDefaultCollate {};

template <typename Sample>
auto default_batch() {
  if constexpr (IsCollatable<Sample>::value) {
    return std::type_identity<decltype(default_collate(
        std::declval<std::vector<Sample>>()))>();
  } else {
    return std::type_identity<NoDefaultCollate>();
  }
}

template <typename Dataset>
struct CollateOption {
  using Sample = SampleOf<Dataset>;
  using Batch = typename decltype(default_batch<Sample>())::type;
  using type = std::function<Batch(std::vector<Sample>)>;
};
template <typename Dataset>
  requires(std::is_void_v<SampleOf<Dataset>>)
struct CollateOption<Dataset> {
  using Batch = void;
  using type = NoDefaultCollate;
};
template <typename Dataset>
  requires(YieldsBatches<DatasetOf<Dataset>>)
struct CollateOption<Dataset> {
  using Batch = decltype(std::declval<DatasetOf<Dataset>&>().get_batch(
      c10::ArrayRef<std::size_t>()));
  using type = NoDefaultCollate;
};

template <typename Dataset, typename Collate>
struct BatchOf {
  using type = std::remove_cvref_t<
      std::invoke_result_t<const Collate&, std::vector<SampleOf<Dataset>>>>;
};
template <typename Dataset>
struct BatchOf<Dataset, DefaultCollate> {
  using type = typename CollateOption<Dataset>::Batch;
};

}  // namespace detail

/// Options for a `DataLoader`.
template <typename Dataset>
struct DataLoaderOptions {
  /// Samples per batch. With several processes, see
  /// `DataLoaderConfiguration::split_batches`.
  std::int64_t batch_size = 1;
  /// Whether to shuffle the samples, in a different order in each epoch. The
  /// order depends only on `seed` and the epoch.
  bool shuffle = false;
  /// A custom sample order, instead of `shuffle`.
  std::optional<Sampler> sampler = std::nullopt;
  /// Custom batches, instead of `batch_size`, `shuffle` and `sampler`.
  std::optional<BatchSampler> batch_sampler = std::nullopt;
  /// Number of worker threads that prefetch batches. With 0, the thread that
  /// runs the loop reads the batches. A stream uses at most one worker thread.
  std::int64_t num_workers = 0;
  /// Whether to drop the last batch if it is incomplete. With several
  /// processes, the last step is dropped if any process's batch is incomplete.
  bool drop_last = false;
  /// A function `Batch(std::vector<Sample>)` that joins samples into a batch.
  /// Several threads may call the function at once. Default: `default_collate`.
  /// A function that returns a different type than `default_collate` must be
  /// passed as the loader's third argument instead.
  typename detail::CollateOption<Dataset>::type collate = {};
  /// Number of batches that each worker may prefetch; 2 if not set. Setting it
  /// requires at least one worker.
  std::optional<std::int64_t> prefetch_factor = std::nullopt;
  /// Whether to put batches into pinned memory, so that the program can
  /// continue while batches are copied to a GPU. Default: true for a prepared
  /// loader that sends batches to a GPU, otherwise false.
  std::optional<bool> pin_memory = std::nullopt;
  /// How long the loop waits for its workers before it throws an `IoError` that
  /// names the sample that is being read. Without workers there is no limit,
  /// because a `get` that hangs cannot be interrupted.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long the loop waits for its workers before it prints a warning.
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  /// Seed for the sample order and for random augmentation. Default: the seed
  /// of `generator`, or else `DataLoaderConfiguration::data_seed`, or else the
  /// seed that LibTorch's default generator has when the first loop begins.
  std::optional<std::uint64_t> seed = std::nullopt;
  /// A generator whose seed is used if `seed` is not set.
  std::optional<at::Generator> generator = std::nullopt;
};

/// Reads a dataset in batches.
///
/// The loader owns the dataset; pass a `std::shared_ptr` to share a dataset. A
/// loader works without an Accelerator; `Accelerator::prepare` gives each
/// process its share of the batches. Leaving a loop early ends its worker
/// threads; the next loop starts the same epoch from the beginning. An error in
/// `get` is rethrown from the loop with the sample's index.
///
/// Thread safety: use a loader only from the thread that runs the loop.
template <typename Dataset, typename Collate = detail::DefaultCollate>
class DataLoader : public DataLoaderBase {
  using D = detail::DatasetOf<Dataset>;
  static_assert(
      detail::MapDataset<D> || detail::StreamDataset<D>,
      "a DataLoader needs a dataset with `size()` and a const, thread-safe "
      "`get(std::int64_t index) const` (or `get(std::int64_t index, "
      "at::Generator& generator) const`), a stream with `next()` that returns "
      "a std::optional, or a LibTorch dataset");

 public:
  using Options = DataLoaderOptions<Dataset>;
  using Sample = detail::SampleOf<Dataset>;
  using Batch = typename detail::BatchOf<Dataset, Collate>::type;
  static_assert(
      !std::is_same_v<Batch, detail::NoDefaultCollate>,
      "default_collate does not support samples of this type: pass a collate "
      "function as the third argument of the DataLoader");

  /// Throws `ArgumentError` for options that contradict each other.
  explicit DataLoader(Dataset dataset, Options options = {})
    requires(std::is_same_v<Collate, detail::DefaultCollate>)
      : DataLoaderBase(
            make_source(std::move(dataset), collate_function(options)),
            config(options)) {}

  /// Joins samples with `collate`, which may return any type.
  DataLoader(Dataset dataset, Options options, Collate collate)
      : DataLoaderBase(
            make_source(std::move(dataset), std::move(collate)),
            config(options)) {}

  /// Iterates over the batches of one epoch. The caller may move the batch out
  /// of `*iterator`.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch& operator*() const { return *static_cast<Batch*>(loop_.batch()); }
    Batch* operator->() const { return &**this; }
    Iterator& operator++() {
      loop_.advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const {
      return loop_.batch() == nullptr;
    }

   private:
    friend class DataLoader;
    explicit Iterator(Loop loop) : loop_(std::move(loop)) {}
    Loop loop_;
  };

  Iterator begin() { return Iterator(begin_loop()); }
  std::default_sentinel_t end() const { return {}; }

  /// See `skip_first_batches`.
  DataLoader without_first(std::int64_t batches) const {
    return DataLoader(copy_without(batches));
  }

 private:
  explicit DataLoader(std::shared_ptr<Impl> impl)
      : DataLoaderBase(std::move(impl)) {}

  static auto collate_function(Options& options) {
    if constexpr (detail::YieldsBatches<D>) {
      return detail::NoDefaultCollate();
    } else {
      return [collate = std::move(options.collate)](
                 std::vector<Sample> samples) -> Batch {
        return collate ? collate(std::move(samples))
                       : default_collate(std::move(samples));
      };
    }
  }

  template <typename CollateFn>
  static std::shared_ptr<detail::BatchSource> make_source(
      Dataset dataset, CollateFn collate) {
    auto shared = detail::share_dataset(std::move(dataset));
    if constexpr (detail::MapDataset<D>) {
      return std::make_shared<detail::MapSource<D, Batch, CollateFn>>(
          std::move(shared), std::move(collate));
    } else {
      return std::make_shared<detail::StreamSource<D, Batch, CollateFn>>(
          std::move(shared), std::move(collate));
    }
  }

  static detail::LoaderConfig config(const Options& options) {
    return {
        .batch_size = options.batch_size,
        .shuffle = options.shuffle,
        .drop_last = options.drop_last,
        .num_workers = options.num_workers,
        .prefetch_factor = options.prefetch_factor,
        .pin_memory = options.pin_memory,
        .timeout = options.timeout,
        .warn_after = options.warn_after,
        .sampler = options.sampler,
        .batch_sampler = options.batch_sampler,
        .seed = options.seed,
        .generator = options.generator};
  }
};

/// Returns a copy of the loader with the same shard and epoch. The first loop
/// over the copy skips the first `batches` batches; later loops are whole
/// epochs.
///
/// Skipped samples of an indexed dataset are not read; skipped samples of a
/// stream are read and dropped.
template <typename Dataset, typename Collate>
[[nodiscard]] DataLoader<Dataset, Collate> skip_first_batches(
    const DataLoader<Dataset, Collate>& loader, std::int64_t batches) {
  return loader.without_first(batches);
}

}  // namespace accelerate
