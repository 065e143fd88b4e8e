// SPDX-License-Identifier: Apache-2.0
// Custom sample orders for a DataLoader.
//
//     struct Backwards {
//       std::int64_t n;
//       std::int64_t size() const { return n; }
//       std::int64_t operator()(std::int64_t position) const {
//         return n - 1 - position;
//       }
//     };
//     accelerate::DataLoader loader(dataset, {.sampler = Backwards{100}});
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {
namespace detail {

template <typename S, typename Result>
concept OrderOf = requires(const S& order, std::int64_t position) {
  { order.size() } -> std::convertible_to<std::int64_t>;
  { order(position) } -> std::convertible_to<Result>;
};

/// A type-erased order. Wraps an object of any type that has `size()` and
/// `operator()(position)`.
///
/// `operator()` must be const, because several threads call it at once. Its
/// result may depend only on the position, on the epoch (if the type has
/// `set_epoch(epoch)`) and on the saved state (if the type has `state_dict()`
/// and `load_state_dict(json)`). Otherwise a resumed run would not repeat the
/// order.
template <typename Result>
class ErasedOrder {
 public:
  template <OrderOf<Result> S>
    requires(!std::same_as<std::remove_cvref_t<S>, ErasedOrder>)
  ErasedOrder(S order) {  // NOLINT
    auto shared = std::make_shared<S>(std::move(order));
    size_ = [shared] { return static_cast<std::int64_t>(shared->size()); };
    at_ = [shared](std::int64_t position) {
      return Result(std::as_const(*shared)(position));
    };
    if constexpr (requires { shared->set_epoch(std::int64_t{}); }) {
      set_epoch_ = [shared](std::int64_t epoch) { shared->set_epoch(epoch); };
    }
    if constexpr (requires(const Json& state) {
                    { shared->state_dict() } -> std::convertible_to<Json>;
                    shared->load_state_dict(state);
                  }) {
      state_dict_ = [shared] { return Json(shared->state_dict()); };
      load_state_dict_ = [shared](const Json& state) {
        shared->load_state_dict(state);
      };
    }
  }
  /// Makes an order from a list that contains the result for each position.
  ErasedOrder(std::vector<Result> list)  // NOLINT
      : ErasedOrder(List{std::move(list)}) {}

  std::int64_t size() const { return size_(); }
  Result operator()(std::int64_t position) const { return at_(position); }
  void set_epoch(std::int64_t epoch) const {
    if (set_epoch_) {
      set_epoch_(epoch);
    }
  }
  bool has_state() const { return state_dict_ != nullptr; }
  /// Return and load the saved state. Require `has_state()`.
  Json state_dict() const { return state_dict_(); }
  void load_state_dict(const Json& state) const { load_state_dict_(state); }

 private:
  struct List {
    std::vector<Result> values;
    std::int64_t size() const {
      return static_cast<std::int64_t>(values.size());
    }
    const Result& operator()(std::int64_t position) const {
      return values[static_cast<std::size_t>(position)];
    }
  };

  std::function<std::int64_t()> size_;
  std::function<Result(std::int64_t)> at_;
  std::function<void(std::int64_t)> set_epoch_;
  std::function<Json()> state_dict_;
  std::function<void(const Json&)> load_state_dict_;
};

}  // namespace detail

/// The dataset index at each position of an epoch.
using Sampler = detail::ErasedOrder<std::int64_t>;
/// The dataset indices of each batch of an epoch; batches may differ in size.
using BatchSampler = detail::ErasedOrder<std::vector<std::int64_t>>;

}  // namespace accelerate
