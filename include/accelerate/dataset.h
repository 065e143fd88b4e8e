// SPDX-License-Identifier: Apache-2.0
// Datasets that a DataLoader can read.
//
//     struct Squares {
//       std::int64_t size() const { return 100; }
//       std::pair<float, float> get(std::int64_t i) const {
//         return {float(i), float(i * i)};
//       }
//     };
//
// Several threads call `get` at once, so it must be const and must not change
// anything without a lock. For random augmentation write `get(std::int64_t
// index, at::Generator& generator) const`: the generator's state depends only
// on the loader's seed, the epoch and the index, so that a resumed run repeats
// the same augmentation.
//
// A stream has `std::optional<Sample> next()` instead of `size` and `get`. It
// may have `reset()`, which is called when an epoch begins. Datasets and
// streams may have `set_epoch(epoch)`, which is also called when an epoch
// begins. A stream with `Json state_dict() const` and `load_state_dict(const
// Json&)` continues at the saved position when a run is resumed; any other
// stream is read from its beginning up to the saved position. LibTorch's
// datasets work unchanged.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <ATen/core/Generator.h>
#include <c10/util/ArrayRef.h>

#include "accelerate/json.h"

namespace accelerate::detail {

template <typename T>
struct Pointee {
  using type = T;
};
template <typename T>
struct Pointee<std::shared_ptr<T>> {
  using type = T;
};
/// The type of the dataset if `T` is a dataset or a `shared_ptr` to a dataset.
template <typename T>
using DatasetOf = typename Pointee<T>::type;

/// A LibTorch dataset. Its `get` is not const, so each worker has its own copy
/// of the dataset.
template <typename D>
concept LibTorchDataset = requires { typename D::BatchRequestType; };

template <typename D>
concept HasSize = requires(const D& dataset) { dataset.size(); };
template <typename D>
concept PlainGet =
    requires(const D& dataset, std::int64_t index) { dataset.get(index); };
template <typename D>
concept RandomGet =
    requires(const D& dataset, std::int64_t index, at::Generator& generator) {
      dataset.get(index, generator);
    };
template <typename D>
concept LibTorchGet =
    LibTorchDataset<D> &&
    requires(D& dataset, std::size_t index) { dataset.get(index); };
template <typename D>
concept LibTorchGetBatch =
    LibTorchDataset<D> &&
    requires(D& dataset, c10::ArrayRef<std::size_t> indices) {
      dataset.get_batch(indices);
    };

/// A LibTorch stream. Its `get_batch(count)` returns a vector or an optional
/// vector.
template <typename D>
concept LibTorchStream =
    LibTorchDataset<D> &&
    std::same_as<typename D::BatchRequestType, std::size_t> &&
    requires(D& dataset, std::size_t count) { dataset.get_batch(count); };

/// Converts the result of a LibTorch stream's `get_batch` to a vector of
/// samples, which is empty at the end of the stream.
template <typename Result>
auto samples_of(Result result) {
  if constexpr (requires { result.has_value(); }) {
    return result.has_value() ? std::move(*result)
                              : typename Result::value_type();
  } else {
    return result;
  }
}

template <typename D>
concept MapDataset = HasSize<D> && (PlainGet<D> || RandomGet<D> ||
                                    LibTorchGet<D> || LibTorchGetBatch<D>);
template <typename D>
concept StreamDataset = LibTorchStream<D> || requires(D& dataset) {
  { dataset.next().has_value() } -> std::convertible_to<bool>;
  *dataset.next();
};

/// A stream that can save and restore its position.
template <typename D>
concept StatefulStream = requires(D& dataset, const Json& state) {
  { std::as_const(dataset).state_dict() } -> std::same_as<Json>;
  dataset.load_state_dict(state);
};

/// The type of a dataset's samples; `void` for types that are not datasets.
template <typename D>
auto sample_type() {
  if constexpr (RandomGet<D>) {
    return std::type_identity<
        std::remove_cvref_t<decltype(std::declval<const D&>().get(
            std::int64_t{}, std::declval<at::Generator&>()))>>();
  } else if constexpr (PlainGet<D> && HasSize<D>) {
    return std::type_identity<std::remove_cvref_t<
        decltype(std::declval<const D&>().get(std::int64_t{}))>>();
  } else if constexpr (LibTorchGet<D>) {
    return std::type_identity<
        std::remove_cvref_t<decltype(std::declval<D&>().get(std::size_t{}))>>();
  } else if constexpr (LibTorchGetBatch<D>) {
    using Batch =
        decltype(std::declval<D&>().get_batch(c10::ArrayRef<std::size_t>()));
    if constexpr (requires { typename Batch::value_type; }) {
      return std::type_identity<typename Batch::value_type>();
    } else {
      return std::type_identity<Batch>();
    }
  } else if constexpr (LibTorchStream<D>) {
    return std::type_identity<typename decltype(samples_of(
        std::declval<D&>().get_batch(std::size_t{})))::value_type>();
  } else if constexpr (StreamDataset<D>) {
    return std::type_identity<
        std::remove_cvref_t<decltype(*std::declval<D&>().next())>>();
  } else {
    return std::type_identity<void>();
  }
}

template <typename Dataset>
using SampleOf = typename decltype(sample_type<DatasetOf<Dataset>>())::type;

/// A LibTorch dataset that collates its samples itself, for example with
/// `map(Stack)`.
template <typename D>
concept YieldsBatches =
    LibTorchGetBatch<D> && !LibTorchGet<D> &&
    !requires(D& dataset, c10::ArrayRef<std::size_t> indices) {
      typename decltype(dataset.get_batch(indices))::value_type;
    };

/// Returns `dataset.size()` as a number. The `size()` of LibTorch's datasets
/// returns an optional.
template <typename D>
std::int64_t size_of(const D& dataset) {
  if constexpr (requires { dataset.size().value(); }) {
    return static_cast<std::int64_t>(dataset.size().value());
  } else {
    return static_cast<std::int64_t>(dataset.size());
  }
}

}  // namespace accelerate::detail
