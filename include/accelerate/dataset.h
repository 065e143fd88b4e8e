// SPDX-License-Identifier: Apache-2.0
// What a DataLoader can read.
//
//     struct Squares {
//       std::int64_t size() const { return 100; }
//       std::pair<float, float> get(std::int64_t i) const {
//         return {float(i), float(i * i)};
//       }
//     };
//
// `get` is called by several threads at once, so it must be const and must not
// change anything without a lock. For random augmentation write
// `get(std::int64_t index, at::Generator& generator) const`: the generator
// depends on seed, epoch and index alone, so that a resumed run repeats it.
//
// A stream has `std::optional<Sample> next()` instead, and may have `reset()`,
// which is called when an epoch begins. Either may have `set_epoch(epoch)`.
// A stream that can say where it is, with `Json state_dict() const` and
// `load_state_dict(const Json&)`, continues there when a run is resumed; any
// other is read from its begin up to that place.
// LibTorch's datasets work as they are.
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
/// The dataset itself, where a `shared_ptr` to one is given.
template <typename T>
using DatasetOf = typename Pointee<T>::type;

/// LibTorch's datasets: their `get` is not const, so each worker has a copy.
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

/// LibTorch's streams: `get_batch(count)` gives a vector, or an optional one.
template <typename D>
concept LibTorchStream =
    LibTorchDataset<D> &&
    std::same_as<typename D::BatchRequestType, std::size_t> &&
    requires(D& dataset, std::size_t count) { dataset.get_batch(count); };

/// A vector of samples out of what a stream of LibTorch's gave; empty at its
/// end.
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

/// A stream that a checkpoint can take to its place.
template <typename D>
concept StatefulStream = requires(D& dataset, const Json& state) {
  { std::as_const(dataset).state_dict() } -> std::same_as<Json>;
  dataset.load_state_dict(state);
};

/// The type of a dataset's samples; `void` for what is no dataset.
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

/// Whether a dataset of LibTorch's joins its samples itself, with `map(Stack)`.
template <typename D>
concept YieldsBatches =
    LibTorchGetBatch<D> && !LibTorchGet<D> &&
    !requires(D& dataset, c10::ArrayRef<std::size_t> indices) {
      typename decltype(dataset.get_batch(indices))::value_type;
    };

/// `size()` as a number: LibTorch's is optional.
template <typename D>
std::int64_t size_of(const D& dataset) {
  if constexpr (requires { dataset.size().value(); }) {
    return static_cast<std::int64_t>(dataset.size().value());
  } else {
    return static_cast<std::int64_t>(dataset.size());
  }
}

}  // namespace accelerate::detail
