// SPDX-License-Identifier: Apache-2.0
// The structure of a nest (tensors or nested containers of tensors, see nest.h)
// as a JSON value that can be sent to other processes.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "accelerate/json.h"
#include "accelerate/nest.h"

namespace accelerate::detail {

/// Whether `visit_tensors` accepts the type `T`.
template <typename T>
struct IsNest
    : std::bool_constant<std::same_as<T, at::Tensor> || HasTensorHook<T>> {};
template <typename T>
  requires(IsSequence<T>::value || IsOptional<T>::value)
struct IsNest<T> : IsNest<typename T::value_type> {};
template <typename T>
  requires(IsMap<T>::value)
struct IsNest<T> : IsNest<typename T::mapped_type> {};
template <typename... Ts>
struct IsNest<std::tuple<Ts...>>
    : std::bool_constant<(IsNest<Ts>::value && ...)> {};
template <typename A, typename B>
struct IsNest<std::pair<A, B>>
    : std::bool_constant<IsNest<A>::value && IsNest<B>::value> {};
template <typename D, typename T>
struct IsNest<torch::data::Example<D, T>>
    : std::bool_constant<IsNest<D>::value && IsNest<T>::value> {};
template <typename D>
struct IsNest<torch::data::Example<D, void>> : IsNest<D> {};

/// Returns a tensor's type and shape as JSON; null for an undefined tensor.
ACCELERATE_API Json describe_tensor(const at::Tensor& tensor);
/// Returns an uninitialized CPU tensor with the type and shape in
/// `description`.
ACCELERATE_API at::Tensor empty_tensor(const Json& description);

/// Returns the structure of a nest: everything except the data of its tensors.
template <typename Nest>
Json describe_nest(Nest& nest) {
  using T = std::remove_cv_t<Nest>;
  if constexpr (std::same_as<T, at::Tensor>) {
    return describe_tensor(nest);
  } else {
    Json parts = Json::array();
    if constexpr (HasTensorHook<T>) {
      for_each_tensor(
          nest, [&](auto& inner) { parts.push_back(describe_nest(inner)); });
    } else if constexpr (IsSequence<T>::value) {
      for (auto& inner : nest) {
        parts.push_back(describe_nest(inner));
      }
    } else if constexpr (IsMap<T>::value) {
      for (auto& [key, inner] : nest) {
        parts.push_back(Json::array({Json(key), describe_nest(inner)}));
      }
    } else if constexpr (IsTuple<T>::value) {
      std::apply(
          [&](auto&... inner) { (parts.push_back(describe_nest(inner)), ...); },
          nest);
    } else if constexpr (IsOptional<T>::value) {
      if (nest) {
        parts.push_back(describe_nest(*nest));
      }
    } else {
      parts.push_back(describe_nest(nest.data));
      if constexpr (requires { nest.target; }) {
        parts.push_back(describe_nest(nest.target));
      }
    }
    return parts;
  }
}

template <typename Key>
Key key_of(const Json& json) {
  if constexpr (std::integral<Key>) {
    return static_cast<Key>(json.as_integer());
  } else {
    return Key(json.as_string());
  }
}

/// Gives `nest` the structure in `description`, with uninitialized tensors.
template <typename Nest>
void build_nest(Nest& nest, const Json& description) {
  using T = Nest;
  std::size_t next = 0;
  if constexpr (std::same_as<T, at::Tensor>) {
    nest = empty_tensor(description);
  } else if constexpr (HasTensorHook<T>) {
    for_each_tensor(
        nest, [&](auto& inner) { build_nest(inner, description.at(next++)); });
  } else if constexpr (IsSequence<T>::value) {
    if constexpr (requires { nest.resize(description.size()); }) {
      nest.resize(description.size());
    }
    for (auto& inner : nest) {
      build_nest(inner, description.at(next++));
    }
  } else if constexpr (IsMap<T>::value) {
    for (const Json& entry : description.as_array()) {
      build_nest(
          nest[key_of<typename T::key_type>(entry.at(std::size_t{0}))],
          entry.at(std::size_t{1}));
    }
  } else if constexpr (IsTuple<T>::value) {
    std::apply(
        [&](auto&... inner) {
          (build_nest(inner, description.at(next++)), ...);
        },
        nest);
  } else if constexpr (IsOptional<T>::value) {
    if (description.size() > 0) {
      build_nest(nest.emplace(), description.at(std::size_t{0}));
    }
  } else {
    build_nest(nest.data, description.at(std::size_t{0}));
    if constexpr (requires { nest.target; }) {
      build_nest(nest.target, description.at(std::size_t{1}));
    }
  }
}

/// Whether `build_nest` can rebuild a value of type `T` from the result of
/// `describe_nest`.
template <typename T>
inline constexpr bool kCanRebuildNest =
    IsNest<T>::value && std::default_initializable<T> &&
    requires(T& nest, const Json& description) {
      { describe_nest(nest) } -> std::same_as<Json>;
    };

}  // namespace accelerate::detail
