// SPDX-License-Identifier: Apache-2.0
// Joins samples into a batch.
//
//     // vector<pair<Tensor [3], int>> of 8 → pair<Tensor [8, 3], Tensor [8]>
//     auto [inputs, labels] = accelerate::default_collate(samples);
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "accelerate/nest.h"

namespace accelerate {
namespace detail {

/// Like `at::stack`, but with error messages about samples instead of tensors.
ACCELERATE_API at::Tensor stack_samples(const std::vector<at::Tensor>& samples);
/// Returns a tensor with a copy of `count` numbers.
ACCELERATE_API at::Tensor tensor_of(
    const void* numbers, std::int64_t count, c10::ScalarType type);
[[noreturn]] ACCELERATE_API void refuse_unequal(
    const char* item, std::size_t first, std::size_t other);

[[noreturn]] ACCELERATE_API void refuse_missing_key(const std::string& key);

/// The tensor data type for numbers of type `T`. As in Python, all integers
/// become int64.
template <typename T>
struct Number {
  using Stored = std::conditional_t<
      std::is_same_v<T, bool>,
      std::uint8_t,
      std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>;
  static constexpr c10::ScalarType type =
      std::is_same_v<T, bool>    ? c10::ScalarType::Bool
      : std::is_integral_v<T>    ? c10::ScalarType::Long
      : std::is_same_v<T, float> ? c10::ScalarType::Float
                                 : c10::ScalarType::Double;
};

template <typename Range>
at::Tensor number_tensor(const Range& range) {
  using T = typename Range::value_type;
  static_assert(
      !std::is_same_v<T, long double>,
      "tensors have no long double type: use double");
  std::vector<typename Number<T>::Stored> numbers(range.begin(), range.end());
  return tensor_of(
      numbers.data(),
      static_cast<std::int64_t>(numbers.size()),
      Number<T>::type);
}

template <typename T>
concept NumberSequence =
    IsSequence<T>::value && std::is_arithmetic_v<typename T::value_type>;

/// Whether `default_collate` supports samples of this type.
template <typename T>
struct IsCollatable
    : std::bool_constant<
          std::is_same_v<T, at::Tensor> || std::is_arithmetic_v<T> ||
          HasTensorHook<T> || NumberSequence<T>> {};
template <typename T>
  requires(IsSequence<T>::value && !NumberSequence<T>)
struct IsCollatable<T> : IsCollatable<typename T::value_type> {};
template <typename T>
  requires(IsMap<T>::value)
struct IsCollatable<T> : IsCollatable<typename T::mapped_type> {};
template <typename... Ts>
struct IsCollatable<std::tuple<Ts...>>
    : std::bool_constant<(IsCollatable<Ts>::value && ...)> {};
template <typename A, typename B>
struct IsCollatable<std::pair<A, B>>
    : std::bool_constant<IsCollatable<A>::value && IsCollatable<B>::value> {};
template <typename T>
struct IsCollatable<std::optional<T>> : IsCollatable<T> {};
template <typename D, typename T>
struct IsCollatable<torch::data::Example<D, T>>
    : std::bool_constant<IsCollatable<D>::value && IsCollatable<T>::value> {};
template <typename D>
struct IsCollatable<torch::data::Example<D, void>> : IsCollatable<D> {};

/// Moves `pick(sample)` of each sample into a list.
template <typename Sample, typename Pick>
auto column(std::vector<Sample>& samples, const Pick& pick) {
  std::vector<std::remove_cvref_t<decltype(pick(samples.front()))>> values;
  values.reserve(samples.size());
  for (Sample& sample : samples) {
    values.push_back(std::move(pick(sample)));
  }
  return values;
}

struct Collator {
  template <typename T>
  auto operator()(std::vector<T> samples) const {
    static_assert(
        IsCollatable<T>::value,
        "default_collate takes samples made of tensors, numbers, "
        "std::vector, array, tuple, pair, map, unordered_map, optional, "
        "torch::data::Example, and structs with a function "
        "`for_each_tensor(YourStruct&, F f)`; for other types pass a collate "
        "function as the third argument of the DataLoader");
    if constexpr (std::is_same_v<T, at::Tensor>) {
      return stack_samples(samples);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return number_tensor(samples);
    } else if constexpr (HasTensorHook<T>) {
      return hooked(samples);
    } else if constexpr (NumberSequence<T>) {
      return rows(samples);
    } else if constexpr (IsSequence<T>::value) {
      return sequence(samples);
    } else if constexpr (IsMap<T>::value) {
      return map(samples);
    } else if constexpr (IsTuple<T>::value) {
      return tuple(samples, std::make_index_sequence<std::tuple_size_v<T>>());
    } else if constexpr (IsOptional<T>::value) {
      return optional(samples);
    } else {
      return example(samples);
    }
  }

 private:
  // Stacks the tensors that `for_each_tensor` visits. All other members of the
  // struct are taken from the first sample.
  template <typename T>
  T hooked(std::vector<T>& samples) const {
    std::vector<std::vector<at::Tensor>> lists;
    for (const T& sample : samples) {
      lists.push_back(tensors_of(sample));
      check_equal("tensors", lists.front().size(), lists.back().size());
    }
    std::vector<at::Tensor> stacked;
    for (std::size_t i = 0; i < lists.front().size(); ++i) {
      stacked.push_back(
          (*this)(column(lists, [i](auto& list) -> auto& { return list[i]; })));
    }
    return with_tensors(samples.front(), stacked);
  }

  template <typename T>
  at::Tensor rows(std::vector<T>& samples) const {
    std::vector<at::Tensor> tensors;
    for (const T& sample : samples) {
      tensors.push_back(number_tensor(sample));
    }
    return stack_samples(tensors);
  }

  template <typename T>
  auto element(std::vector<T>& samples, std::size_t i) const {
    return (*this)(
        column(samples, [i](T& sample) -> auto& { return sample[i]; }));
  }

  template <typename T>
  auto sequence(std::vector<T>& samples) const {
    for (const T& sample : samples) {
      check_equal("elements", samples.front().size(), sample.size());
    }
    const std::size_t length = samples.front().size();
    using Element = decltype(element(samples, 0));
    std::vector<Element> batch;
    for (std::size_t i = 0; i < length; ++i) {
      batch.push_back(element(samples, i));
    }
    return batch;
  }

  template <typename Map, typename Value>
  struct Rebind;
  template <typename K, typename V, typename Value>
  struct Rebind<std::map<K, V>, Value> {
    using type = std::map<K, Value>;
  };
  template <typename K, typename V, typename Value>
  struct Rebind<std::unordered_map<K, V>, Value> {
    using type = std::unordered_map<K, Value>;
  };

  template <typename T>
  auto map(std::vector<T>& samples) const {
    using Value = decltype((*this)(std::vector<typename T::mapped_type>()));
    typename Rebind<T, Value>::type batch;
    for (const auto& [key, value] : T(samples.front())) {
      batch.emplace(key, (*this)(column(samples, [&](T& sample) -> auto& {
                      check_equal(
                          "keys", samples.front().size(), sample.size());
                      const auto found = sample.find(key);
                      if (found == sample.end()) {
                        refuse_key(key);
                      }
                      return found->second;
                    })));
    }
    return batch;
  }

  template <typename T, std::size_t... I>
  auto tuple(std::vector<T>& samples, std::index_sequence<I...>) const {
    const auto part = [&]<std::size_t N>() {
      return (*this)(
          column(samples, [](T& sample) -> auto& { return get<N>(sample); }));
    };
    if constexpr (std::
                      is_same_v<T, std::tuple<std::tuple_element_t<I, T>...>>) {
      return std::tuple { part.template operator()<I>()... };
    } else {
      return std::pair { part.template operator()<I>()... };
    }
  }

  template <typename T>
  auto optional(std::vector<T>& samples) const {
    for (const T& sample : samples) {
      check_equal("optional values", samples.front() ? 1 : 0, sample ? 1 : 0);
    }
    using Value = decltype((*this)(std::vector<typename T::value_type>()));
    return samples.front()
               ? std::optional<Value>((*this)(column(
                     samples, [](T& sample) -> auto& { return *sample; })))
               : std::optional<Value>();
  }

  template <typename D, typename T>
  auto example(std::vector<torch::data::Example<D, T>>& samples) const {
    auto data = (*this)(
        column(samples, [](auto& sample) -> auto& { return sample.data; }));
    if constexpr (std::is_void_v<T>) {
      return torch::data::Example<decltype(data), void>(std::move(data));
    } else {
      auto target = (*this)(
          column(samples, [](auto& sample) -> auto& { return sample.target; }));
      return torch::data::Example<decltype(data), decltype(target)>(
          std::move(data), std::move(target));
    }
  }

  template <typename Key>
  [[noreturn]] static void refuse_key(const Key& key) {
    if constexpr (std::is_convertible_v<Key, std::string>) {
      refuse_missing_key(key);
    } else {
      refuse_missing_key(std::to_string(key));
    }
  }

  static void check_equal(
      const char* item, std::size_t first, std::size_t other) {
    if (first != other) {
      refuse_unequal(item, first, other);
    }
  }
};

}  // namespace detail

/// Joins samples into a batch. Tensors are stacked along a new first dimension,
/// numbers and vectors of numbers become tensors, and other containers are
/// joined element by element.
///
/// Throws `ArgumentError` when samples do not fit together, for example
/// sequences of different lengths.
template <typename Sample>
[[nodiscard]] auto default_collate(std::vector<Sample> samples) {
  return detail::Collator()(std::move(samples));
}

}  // namespace accelerate
