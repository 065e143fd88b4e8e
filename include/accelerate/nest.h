// SPDX-License-Identifier: Apache-2.0
// Nests: tensors or nested containers of tensors.
//
//     struct Batch { at::Tensor ids; std::vector<at::Tensor> images; };
//
//     template <typename F>
//     void for_each_tensor(Batch& batch, F f) {
//       f(batch.ids);
//       f(batch.images);
//     }
//
// The function `for_each_tensor` makes `Batch` a nest: every function that
// accepts nests then accepts a `Batch`, as it accepts the standard containers.
#pragma once

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::data {
template <typename Data, typename Target>
struct Example;
}

namespace accelerate {
namespace detail {

template <typename T>
concept HasTensorHook =
    requires(T& value) { for_each_tensor(value, [](auto&) {}); };

template <typename T>
struct IsSequence : std::false_type {};
template <typename T>
struct IsSequence<std::vector<T>> : std::true_type {};
template <typename T, std::size_t N>
struct IsSequence<std::array<T, N>> : std::true_type {};

template <typename T>
struct IsMap : std::false_type {};
template <typename K, typename V>
struct IsMap<std::map<K, V>> : std::true_type {};
template <typename K, typename V>
struct IsMap<std::unordered_map<K, V>> : std::true_type {};

template <typename T>
struct IsTuple : std::false_type {};
template <typename... Ts>
struct IsTuple<std::tuple<Ts...>> : std::true_type {};
template <typename A, typename B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
struct IsExample : std::false_type {};
template <typename D, typename T>
struct IsExample<torch::data::Example<D, T>> : std::true_type {};

template <typename>
inline constexpr bool kAlwaysFalse = false;

}  // namespace detail

/// Calls `f(at::Tensor&)` for each tensor in a nest, in a fixed order.
///
/// A nest is a tensor; a vector, array, tuple, pair, map or optional of nests;
/// LibTorch's `Example`; or a struct with a `for_each_tensor` function in the
/// struct's namespace. Any other type does not compile.
template <typename Nest, typename F>
void visit_tensors(Nest& nest, F&& f) {
  using T = std::remove_cv_t<Nest>;
  if constexpr (std::same_as<T, at::Tensor>) {
    f(nest);
  } else if constexpr (detail::HasTensorHook<T>) {
    for_each_tensor(nest, [&](auto& inner) { visit_tensors(inner, f); });
  } else if constexpr (detail::IsSequence<T>::value) {
    for (auto& inner : nest) {
      visit_tensors(inner, f);
    }
  } else if constexpr (detail::IsMap<T>::value) {
    for (auto& entry : nest) {
      visit_tensors(entry.second, f);
    }
  } else if constexpr (detail::IsTuple<T>::value) {
    std::apply([&](auto&... inner) { (visit_tensors(inner, f), ...); }, nest);
  } else if constexpr (detail::IsOptional<T>::value) {
    if (nest) {
      visit_tensors(*nest, f);
    }
  } else if constexpr (detail::IsExample<T>::value) {
    visit_tensors(nest.data, f);
    if constexpr (requires { nest.target; }) {
      visit_tensors(nest.target, f);
    }
  } else {
    static_assert(
        detail::kAlwaysFalse<T>,
        "not a nest of tensors: use at::Tensor, std::vector, array, tuple, "
        "pair, map, unordered_map, optional, torch::data::Example, or give "
        "your struct a function `for_each_tensor(YourStruct&, F f)` that calls "
        "f on each member with tensors");
  }
}

/// Returns the tensors in a nest, in the order of `visit_tensors`.
template <typename Nest>
std::vector<at::Tensor> tensors_of(const Nest& nest) {
  Nest copy = nest;  // Copies tensor handles, not data.
  std::vector<at::Tensor> tensors;
  visit_tensors(copy, [&](at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// Returns a copy of `nest` whose tensors are replaced by `tensors`, in the
/// order of `visit_tensors`.
template <typename Nest>
Nest with_tensors(const Nest& nest, const std::vector<at::Tensor>& tensors) {
  Nest result = nest;
  auto next = tensors.begin();
  visit_tensors(result, [&](at::Tensor& tensor) { tensor = *next++; });
  return result;
}

}  // namespace accelerate
