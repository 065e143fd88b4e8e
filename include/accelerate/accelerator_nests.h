// SPDX-License-Identifier: Apache-2.0
// Defines the Accelerator's functions that take nests: tensors or nested
// containers of tensors (see nest.h).
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/accelerator.h"
#include "accelerate/nest.h"

namespace accelerate {

template <typename Nest>
Nest Accelerator::gather(const Nest& nest) const {
  return with_tensors(nest, group().gather(tensors_of(nest)));
}

template <typename Nest>
Nest Accelerator::gather_for_metrics(const Nest& nest) const {
  return with_tensors(nest, gather_real_rows(tensors_of(nest)));
}

template <typename Nest>
Nest Accelerator::reduce(
    const Nest& nest, Reduction reduction, double scale) const {
  return with_tensors(nest, group().reduce(tensors_of(nest), reduction, scale));
}

template <typename Nest>
Nest Accelerator::pad_across_processes(
    const Nest& nest, const PadOptions& options) const {
  return with_tensors(
      nest, group().pad_across_processes(tensors_of(nest), options));
}

namespace detail {

/// Adapts a `GraphedFunction`, which takes and returns lists of tensors, to
/// take and return nests of tensors (see nest.h).
template <typename Function>
class GraphedCall {
 public:
  GraphedCall(GraphedFunction core, Function function)
      : core_(std::move(core)), function_(std::move(function)) {}

  template <typename... Nests>
  auto operator()(const Nests&... nests) {
    using Result = std::invoke_result_t<Function&, const Nests&...>;
    const std::tuple<Nests...> arguments(nests...);
    // A replay does not call `function_`. The result of a replay has the
    // structure of the last nest that `function_` returned, stored in
    // `structure_`.
    static_assert(
        std::is_void_v<Result> ||
            std::is_same_v<Result, std::remove_cvref_t<Result>>,
        "a graphed function returns a nest by value, or nothing");
    if constexpr (std::is_void_v<Result>) {
      core_.run(tensors_of(arguments), [&](const auto& inputs) {
        std::apply(function_, with_tensors(arguments, inputs));
        return std::vector<at::Tensor>();
      });
    } else {
      const auto results =
          core_.run(tensors_of(arguments), [&](const auto& inputs) {
            auto structure = std::make_shared<Result>(
                std::apply(function_, with_tensors(arguments, inputs)));
            const auto tensors = tensors_of(*structure);
            // Drops the tensors, which would keep the autograd graph alive.
            *structure = with_tensors(
                *structure, std::vector<at::Tensor>(tensors.size()));
            structure_ = structure;
            return tensors;
          });
      return with_tensors(
          *std::static_pointer_cast<const Result>(structure_), results);
    }
  }

  const GraphedFunction& core() const { return core_; }

 private:
  GraphedFunction core_;
  Function function_;
  std::shared_ptr<const void> structure_;
};

}  // namespace detail

template <typename Function>
auto Accelerator::graph(Function function, const GraphOptions& options) {
  return detail::GraphedCall<Function>(
      make_graph(options), std::move(function));
}

}  // namespace accelerate
