// SPDX-License-Identifier: Apache-2.0
// The form of a nest of tensors as a value that can be sent.
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

/// Whether `visit_tensors` accepts the type.
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

/// Type and shape of a tensor; null for an undefined one.
ACCELERATE_API Json describe_tensor(const at::Tensor& tensor);
/// A tensor of that type and shape on the CPU, its data undetermined.
ACCELERATE_API at::Tensor empty_tensor(const Json& description);

/// Everything about a nest but the data of its tensors.
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

/// Gives `nest` the form that `describe_nest` told, with empty tensors.
template <typename Nest>
void build_nest(Nest& nest, const Json& form) {
  using T = Nest;
  std::size_t next = 0;
  if constexpr (std::same_as<T, at::Tensor>) {
    nest = empty_tensor(form);
  } else if constexpr (HasTensorHook<T>) {
    for_each_tensor(
        nest, [&](auto& inner) { build_nest(inner, form.at(next++)); });
  } else if constexpr (IsSequence<T>::value) {
    if constexpr (requires { nest.resize(form.size()); }) {
      nest.resize(form.size());
    }
    for (auto& inner : nest) {
      build_nest(inner, form.at(next++));
    }
  } else if constexpr (IsMap<T>::value) {
    for (const Json& entry : form.as_array()) {
      build_nest(
          nest[key_of<typename T::key_type>(entry.at(std::size_t{0}))],
          entry.at(std::size_t{1}));
    }
  } else if constexpr (IsTuple<T>::value) {
    std::apply(
        [&](auto&... inner) { (build_nest(inner, form.at(next++)), ...); },
        nest);
  } else if constexpr (IsOptional<T>::value) {
    if (form.size() > 0) {
      build_nest(nest.emplace(), form.at(std::size_t{0}));
    }
  } else {
    build_nest(nest.data, form.at(std::size_t{0}));
    if constexpr (requires { nest.target; }) {
      build_nest(nest.target, form.at(std::size_t{1}));
    }
  }
}

/// Whether a nest can be rebuilt from what `describe_nest` tells.
template <typename T>
inline constexpr bool kCanTravel =
    IsNest<T>::value && std::default_initializable<T> &&
    requires(T& nest, const Json& form) {
      { describe_nest(nest) } -> std::same_as<Json>;
    };

}  // namespace accelerate::detail
