// SPDX-License-Identifier: Apache-2.0
// Training that fits into memory.
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

/// Whether an exception means that memory ran out: an `OutOfMemoryError` of
/// ours or LibTorch's, `std::bad_alloc`, or an error whose text says so.
ACCELERATE_API bool is_out_of_memory(const std::exception_ptr& error);

/// Gives memory that the accelerator's allocator holds in reserve back to the
/// device. Does nothing without an accelerator.
ACCELERATE_API void clear_device_cache();

/// The next batch size to try after one that did not fit.
using ReduceBatchSize = std::function<std::int64_t(std::int64_t)>;

namespace detail {

/// The batch sizes that are tried, one after the other.
class ACCELERATE_API BatchSizeSearch {
 public:
  BatchSizeSearch(std::int64_t starting_batch_size, ReduceBatchSize reduce);
  std::int64_t batch_size() const { return batch_size_; }
  /// Moves on to the next size, or throws: `error` itself when it is not about
  /// memory.
  void failed(const std::exception_ptr& error);

 private:
  std::int64_t batch_size_;
  ReduceBatchSize reduce_;
};

}  // namespace detail

/// Calls `function(batch_size)` with smaller and smaller sizes until one does
/// not run out of memory, and returns what it returns.
///
/// `reduce` gives the next size; nine tenths, rounded down, if left out. What
/// a failed call made is gone before the next one: keep nothing of it outside
/// `function`. Throws `OutOfMemoryError` when no size is left,
/// `ArgumentError` for a `reduce` that does not reduce, and everything that is
/// not about memory as it is.
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

/// Lets go of objects (`shared_ptr`s, module holders, tensors, containers) and
/// clears the device's cache.
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
