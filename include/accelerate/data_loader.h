// SPDX-License-Identifier: Apache-2.0
// Batches from any dataset, in any order, on any number of processes.
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

/// Stands where a collate function of a type of its own can be given.
struct DefaultCollate {};
/// Samples of this type need a collate function.
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

/// How a `DataLoader` reads.
template <typename Dataset>
struct DataLoaderOptions {
  /// Samples of a batch; on several processes see `split_batches`.
  std::int64_t batch_size = 1;
  /// Another order in each epoch, from `seed`.
  bool shuffle = false;
  /// An order of your own, instead of `shuffle`.
  std::optional<Sampler> sampler = std::nullopt;
  /// Batches of your own, instead of `batch_size`, `shuffle` and `sampler`.
  std::optional<BatchSampler> batch_sampler = std::nullopt;
  /// Threads that read ahead; 0: the loop reads. A stream is read by one.
  std::int64_t num_workers = 0;
  /// Leaves out a last batch that is not full (on several processes: a last
  /// step that is not).
  bool drop_last = false;
  /// Joins samples, `Batch(std::vector<Sample>)`, called by several threads at
  /// once; left out: `default_collate`. One that returns another type than
  /// that goes into the loader's third argument.
  typename detail::CollateOption<Dataset>::type collate = {};
  /// Batches that each worker may be ahead; left out: 2. Only with workers.
  std::optional<std::int64_t> prefetch_factor = std::nullopt;
  /// Batches in memory that a GPU reads while the program goes on. Left out:
  /// on when `prepare` sends them to one.
  std::optional<bool> pin_memory = std::nullopt;
  /// How long the loop waits for a batch of its workers: an `IoError` that
  /// names the sample then, and a warning before. Without workers the loop
  /// itself reads, and nothing can end a `get` that hangs.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  /// Of the order and of random augmentation. Left out: `data_seed`, else that
  /// of LibTorch's default generator when the first loop begins.
  std::optional<std::uint64_t> seed = std::nullopt;
  /// A generator whose seed is taken instead.
  std::optional<at::Generator> generator = std::nullopt;
};

/// Reads a dataset in batches.
///
/// The dataset is moved in; pass a `std::shared_ptr` to share it. A loader
/// works alone; `Accelerator::prepare` gives each process its part. A loop can
/// be left at any time, its threads end with it; the next one begins the epoch
/// anew. An error in `get` comes out of the loop with the sample's index.
///
/// Thread safety: one thread, that of the loop.
template <typename Dataset, typename Collate = detail::DefaultCollate>
class DataLoader : public DataLoaderBase {
  using D = detail::DatasetOf<Dataset>;
  static_assert(
      detail::MapDataset<D> || detail::StreamDataset<D>,
      "a DataLoader needs a dataset with `size()` and a const, thread-safe "
      "`get(std::int64_t index) const` (or `get(std::int64_t index, "
      "at::Generator& generator) const`), a stream with `next()` that returns "
      "a std::optional, or a dataset of LibTorch's");

 public:
  using Options = DataLoaderOptions<Dataset>;
  using Sample = detail::SampleOf<Dataset>;
  using Batch = typename detail::BatchOf<Dataset, Collate>::type;
  static_assert(
      !std::is_same_v<Batch, detail::NoDefaultCollate>,
      "samples of this type cannot be joined by default: pass a collate "
      "function as third argument of the DataLoader");

  /// Throws `ArgumentError` for options that cannot work together.
  explicit DataLoader(Dataset dataset, Options options = {})
    requires(std::is_same_v<Collate, detail::DefaultCollate>)
      : DataLoaderBase(
            make_source(std::move(dataset), joiner(options)),
            settings(options)) {}

  /// Joins samples with `collate`, whatever it returns.
  DataLoader(Dataset dataset, Options options, Collate collate)
      : DataLoaderBase(
            make_source(std::move(dataset), std::move(collate)),
            settings(options)) {}

  /// Goes through one epoch; `*iterator` may be moved from.
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

  static auto joiner(Options& options) {
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

  template <typename Join>
  static std::shared_ptr<detail::BatchSource> make_source(
      Dataset dataset, Join join) {
    auto shared = detail::share_dataset(std::move(dataset));
    if constexpr (detail::MapDataset<D>) {
      return std::make_shared<detail::MapSource<D, Batch, Join>>(
          std::move(shared), std::move(join));
    } else {
      return std::make_shared<detail::StreamSource<D, Batch, Join>>(
          std::move(shared), std::move(join));
    }
  }

  static detail::LoaderSettings settings(const Options& options) {
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

/// A loader like this one, shard, epoch and all, whose first loop begins
/// `batches` batches later; its later loops are whole epochs again.
///
/// Nothing is read of a dataset with an index; of a stream, the samples are
/// read and dropped.
template <typename Dataset, typename Collate>
[[nodiscard]] DataLoader<Dataset, Collate> skip_first_batches(
    const DataLoader<Dataset, Collate>& loader, std::int64_t batches) {
  return loader.without_first(batches);
}

}  // namespace accelerate
