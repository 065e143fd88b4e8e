// SPDX-License-Identifier: Apache-2.0
#include "accelerate/memory.h"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// Out-of-memory texts from CUDA, XPU, cuDNN, the CPU allocator and HPU.
constexpr std::array<std::string_view, 5> kOutOfMemoryTexts = {
    "out of memory",
    "CUDNN_STATUS_NOT_SUPPORTED",
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "PT_DEVMEM Allocation failed",
};

bool mentions_out_of_memory(std::string_view text) {
  return std::any_of(
      kOutOfMemoryTexts.begin(),
      kOutOfMemoryTexts.end(),
      [&](std::string_view phrase) {
        return text.find(phrase) != std::string_view::npos;
      });
}

std::string first_line_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    const std::string text = exception.what();
    return text.substr(0, text.find('\n'));
  }
}

std::int64_t nine_tenths(std::int64_t size) {
  return size * 9 / 10;
}

}  // namespace

bool is_out_of_memory(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemoryError&) {
    return true;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::exception& exception) {
    return mentions_out_of_memory(exception.what());
  } catch (...) {
    return false;
  }
}

void clear_device_cache() {
  const auto device = at::accelerator::getAccelerator();
  if (!device || at::accelerator::deviceCount() == 0) {
    return;
  }
  // Emptying the cache of an unused allocator would initialize the device.
  if (c10::DeviceAllocator* allocator = at::getDeviceAllocator(*device);
      allocator->initialized()) {
    allocator->emptyCache();
  }
}

namespace detail {

BatchSizeSearch::BatchSizeSearch(
    std::int64_t starting_batch_size, ReduceBatchSize reduce)
    : batch_size_(starting_batch_size),
      reduce_(reduce ? std::move(reduce) : nine_tenths) {
  if (starting_batch_size < 1) {
    throw ArgumentError(
        str_cat("`starting_batch_size` is ", starting_batch_size),
        "pass 1 or more");
  }
}

void BatchSizeSearch::failed(const std::exception_ptr& error) {
  if (!is_out_of_memory(error)) {
    std::rethrow_exception(error);
  }
  clear_device_cache();
  const std::int64_t next = reduce_(batch_size_);
  if (next >= batch_size_) {
    throw ArgumentError(
        str_cat(
            "the `reduce` function passed to `find_executable_batch_size` "
            "returned ",
            next,
            ", which is not smaller than the current batch size of ",
            batch_size_),
        "return a smaller batch size, or 0 to stop");
  }
  if (next < 1) {
    throw OutOfMemoryError(
        str_cat(
            "no batch size fits in memory; the last one tried, ",
            batch_size_,
            ", failed with: ",
            first_line_of(error)),
        "use a smaller model, or gradient checkpointing");
  }
  batch_size_ = next;
}

}  // namespace detail
}  // namespace accelerate
