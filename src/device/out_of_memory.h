// SPDX-License-Identifier: Apache-2.0
// The error that is thrown when a device is out of memory.
#pragma once

#include <string>
#include <utility>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "accelerate/error.h"

namespace accelerate {

/// Converts LibTorch's out-of-memory error to `OutOfMemoryError`, whose message
/// contains the device, the requested memory, the free memory and the peak
/// memory use.
ACCELERATE_API OutOfMemoryError
out_of_memory(const c10::Error& error, c10::Device device);

/// Returns whether LibTorch throws `error` because a device, or the CPU, is out
/// of memory.
ACCELERATE_API bool is_out_of_memory_error(const c10::Error& error);

/// Calls `body` and returns its result. If LibTorch throws an out-of-memory
/// error, throws `OutOfMemoryError` instead.
template <typename Body>
decltype(auto) with_memory_errors(c10::Device device, const Body& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    if (!is_out_of_memory_error(error)) {
      throw;
    }
    throw out_of_memory(error, device);
  }
}

}  // namespace accelerate
