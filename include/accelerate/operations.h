// SPDX-License-Identifier: Apache-2.0
// Collectives and small helpers for nests: tensors or nested containers of
// tensors (see nest.h).
//
//     auto logits = accelerate::gather(outputs);  // rows from all processes
//     auto mean = accelerate::reduce(loss, {.reduction = Reduction::mean});
//     batch = accelerate::send_to_device(batch, state.device());
//
// The collectives run over the process group of all processes unless the caller
// passes another group. The class `Group` documents the requirements and errors
// of collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "accelerate/group.h"
#include "accelerate/json.h"
#include "accelerate/nest.h"

namespace accelerate {

/// Returns the process group of all processes in this run. The first call
/// connects this process to the other processes, as the constructor of
/// `PartialState` does.
ACCELERATE_API const Group& world();

/// Concatenates each tensor across processes along dimension 0 and returns the
/// result on every process. Processes may have different sizes in dimension 0;
/// a 0-d tensor counts as one row.
///
/// Collective.
template <typename Nest>
[[nodiscard]] Nest gather(const Nest& nest, const Group& group = world()) {
  return with_tensors(nest, group.gather(tensors_of(nest)));
}

struct ReduceOptions {
  Reduction reduction = Reduction::mean;
  double scale = 1.0;
};

/// Reduces each tensor across processes and multiplies the result by `scale`.
///
/// Collective.
template <typename Nest>
[[nodiscard]] Nest reduce(
    const Nest& nest,
    ReduceOptions options = {},
    const Group& group = world()) {
  return with_tensors(
      nest, group.reduce(tensors_of(nest), options.reduction, options.scale));
}

/// Overwrites the data of each tensor with the data from process
/// `from_process`, and returns the nest.
///
/// Collective.
template <typename Nest>
Nest broadcast(
    const Nest& nest, int from_process = 0, const Group& group = world()) {
  group.broadcast(tensors_of(nest), from_process);
  return nest;
}

/// Pads each tensor in dimension `options.dim` to the largest size that this
/// tensor has on any process.
///
/// Collective.
template <typename Nest>
[[nodiscard]] Nest pad_across_processes(
    const Nest& nest,
    const PadOptions& options = {},
    const Group& group = world()) {
  return with_tensors(
      nest, group.pad_across_processes(tensors_of(nest), options));
}

/// Concatenates the lists from all processes and returns the result on every
/// process.
///
/// Collective.
[[nodiscard]] inline std::vector<Json> gather_object(
    const std::vector<Json>& objects, const Group& group = world()) {
  return group.gather_object(objects);
}

/// Overwrites the list with the list from process `from_process`.
///
/// Collective.
inline void broadcast_object_list(
    std::vector<Json>& objects,
    int from_process = 0,
    const Group& group = world()) {
  group.broadcast_object_list(objects, from_process);
}

namespace detail {
ACCELERATE_API std::vector<at::Tensor> to_device(
    const std::vector<at::Tensor>& tensors,
    c10::Device device,
    bool non_blocking);
ACCELERATE_API std::vector<at::Tensor> slice(
    const std::vector<at::Tensor>& tensors,
    std::int64_t begin,
    std::int64_t end);
ACCELERATE_API std::vector<at::Tensor> concatenate(
    const std::vector<std::vector<at::Tensor>>& lists, std::int64_t dim);
ACCELERATE_API std::vector<at::Tensor> to_fp32(
    const std::vector<at::Tensor>& tensors);
}  // namespace detail

namespace detail {

/// Copies, from `from` to `to`, the map entries whose keys are in `keys`. Both
/// nests must have the same structure.
template <typename Nest>
void keep_entries(
    const Nest& from, Nest& to, const std::set<std::string>& keys) {
  if constexpr (IsMap<Nest>::value) {
    for (auto& [key, value] : to) {
      if constexpr (std::same_as<typename Nest::key_type, std::string>) {
        if (keys.contains(key)) {
          value = from.at(key);
          continue;
        }
      }
      keep_entries(from.at(key), value, keys);
    }
  } else if constexpr (IsSequence<Nest>::value) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      keep_entries(from[i], to[i], keys);
    }
  } else if constexpr (IsTuple<Nest>::value) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (keep_entries(std::get<I>(from), std::get<I>(to), keys), ...);
    }(std::make_index_sequence<std::tuple_size_v<Nest>>());
  } else if constexpr (IsOptional<Nest>::value) {
    if (to) {
      keep_entries(*from, *to, keys);
    }
  }
}

}  // namespace detail

struct SendToDeviceOptions {
  bool non_blocking = false;
  /// Keys of map entries that stay on their device, in maps at any depth.
  /// Applies only to maps with string keys. Maps inside a user-defined struct
  /// are always moved completely.
  std::set<std::string> skip_keys = {};
};

/// Returns a copy of the nest with each tensor moved to `device`.
template <typename Nest>
[[nodiscard]] Nest send_to_device(
    const Nest& nest,
    c10::Device device,
    const SendToDeviceOptions& options = {}) {
  Nest result = with_tensors(
      nest, detail::to_device(tensors_of(nest), device, options.non_blocking));
  if (!options.skip_keys.empty()) {
    detail::keep_entries(nest, result, options.skip_keys);
  }
  return result;
}

/// Returns the size of dimension 0 of the first tensor that has at least one
/// dimension; empty if there is no such tensor.
template <typename Nest>
[[nodiscard]] std::optional<std::int64_t> find_batch_size(const Nest& nest) {
  for (const at::Tensor& tensor : tensors_of(nest)) {
    if (tensor.defined() && tensor.dim() > 0) {
      return tensor.size(0);
    }
  }
  return std::nullopt;
}

/// Returns the device of the first defined tensor; empty if there is no such
/// tensor.
template <typename Nest>
[[nodiscard]] std::optional<c10::Device> find_device(const Nest& nest) {
  for (const at::Tensor& tensor : tensors_of(nest)) {
    if (tensor.defined()) {
      return tensor.device();
    }
  }
  return std::nullopt;
}

/// Returns rows `begin` to `end` (exclusive) of each tensor.
///
/// Throws `ArgumentError` when a tensor does not have rows `begin` to `end`.
template <typename Nest>
[[nodiscard]] Nest slice_tensors(
    const Nest& nest, std::int64_t begin, std::int64_t end) {
  return with_tensors(nest, detail::slice(tensors_of(nest), begin, end));
}

/// Concatenates nests with the same structure, tensor by tensor, along
/// dimension `dim`.
///
/// Throws `ArgumentError` when `nests` is empty or the tensors do not match.
template <typename Nest>
[[nodiscard]] Nest concatenate(
    const std::vector<Nest>& nests, std::int64_t dim = 0) {
  std::vector<std::vector<at::Tensor>> lists;
  for (const Nest& nest : nests) {
    lists.push_back(tensors_of(nest));
  }
  const auto joined = detail::concatenate(lists, dim);
  return with_tensors(nests.front(), joined);
}

/// Converts fp16 and bf16 tensors to fp32; does not change other tensors.
template <typename Nest>
[[nodiscard]] Nest convert_to_fp32(const Nest& nest) {
  return with_tensors(nest, detail::to_fp32(tensors_of(nest)));
}

}  // namespace accelerate
