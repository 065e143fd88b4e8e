// SPDX-License-Identifier: Apache-2.0
// What there is to say when a device has no memory left.
#pragma once

#include <string>
#include <utility>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "accelerate/error.h"

namespace accelerate {

/// Our error for LibTorch's: which device, how much was asked for, how much is
/// free, and the most that was in use.
ACCELERATE_API OutOfMemoryError
out_of_memory(const c10::OutOfMemoryError& error, c10::Device device);

/// Calls `body`, with LibTorch's error replaced by ours.
template <typename Body>
decltype(auto) with_memory_errors(c10::Device device, const Body& body) {
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    throw out_of_memory(error, device);
  }
}

}  // namespace accelerate
