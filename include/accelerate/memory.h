// SPDX-License-Identifier: Apache-2.0
// Helpers to train within the available memory.
//
//     accelerate::find_executable_batch_size([&](std::int64_t batch_size) {
//       accelerator.free_memory();
//       train(accelerator, batch_size);
//     }, 128);
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "accelerate/export.h"

namespace accelerate {

/// Returns whether an exception means that memory ran out: this library's or
/// LibTorch's `OutOfMemoryError`, `std::bad_alloc`, or an error whose message
/// says that memory ran out.
ACCELERATE_API bool is_out_of_memory(const std::exception_ptr& error);

/// Makes the caching allocator give its unused memory back to the device. Does
/// nothing without an accelerator.
ACCELERATE_API void clear_device_cache();

/// A function that takes a batch size that did not fit in memory and returns
/// the batch size to try next.
using ReduceBatchSize = std::function<std::int64_t(std::int64_t)>;

namespace detail {

/// The sequence of batch sizes to try.
class ACCELERATE_API BatchSizeSearch {
 public:
  BatchSizeSearch(std::int64_t starting_batch_size, ReduceBatchSize reduce);
  std::int64_t batch_size() const { return batch_size_; }
  /// Moves to the next batch size. Rethrows `error` if it is not an
  /// out-of-memory error.
  void failed(const std::exception_ptr& error);

 private:
  std::int64_t batch_size_;
  ReduceBatchSize reduce_;
};

}  // namespace detail

/// Calls `function(batch_size)` with decreasing sizes until a call fits in
/// memory, and returns the result of that call.
///
/// `reduce` returns the next size; the default is nine tenths of the previous
/// size, rounded down. Objects that a failed call created must be freed before
/// the next call, so do not keep them outside `function`. Throws
/// `OutOfMemoryError` when no size is left, and `ArgumentError` when `reduce`
/// does not return a smaller size. If `function` throws an error that does not
/// mean that memory ran out, rethrows this error unchanged.
template <typename Function>
auto find_executable_batch_size(
    Function&& function,
    std::int64_t starting_batch_size = 128,
    ReduceBatchSize reduce = {}) {
  static_assert(
      std::is_invocable_v<Function&, std::int64_t>,
      "find_executable_batch_size calls the function with one argument, the "
      "batch size: pass [&](std::int64_t batch_size) { … }");
  detail::BatchSizeSearch search(starting_batch_size, std::move(reduce));
  while (true) {
    std::exception_ptr error;
    try {
      return function(search.batch_size());
    } catch (...) {
      error = std::current_exception();
    }
    search.failed(error);
  }
}

/// Releases objects (`shared_ptr`s, module holders, tensors, containers) and
/// clears the device's memory cache.
///
///     accelerate::release_memory(model, optimizer, outputs);
template <typename... Objects>
void release_memory(Objects&... objects) {
  [[maybe_unused]] const auto release = [](auto& object) {
    using Object = std::remove_reference_t<decltype(object)>;
    if constexpr (std::is_assignable_v<Object&, std::nullptr_t>) {
      object = nullptr;
    } else {
      object = Object();
    }
  };
  (release(objects), ...);
  clear_device_cache();
}

}  // namespace accelerate
