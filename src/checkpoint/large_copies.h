// SPDX-License-Identifier: Apache-2.0
// Copies data that is larger than the processor's caches.
#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace accelerate {

/// Copies with stores that bypass the processor's caches: the target is not
/// read before it is overwritten, and other data stays cached. Takes two thirds
/// as long as `memcpy`. Use this function only for copies that are not read
/// soon, because the copy is not in the caches.
void copy_bypassing_caches(
    std::byte* to, const std::byte* from, std::size_t bytes);

/// Splits the bytes from 0 to `bytes` into ranges that begin at multiples of
/// the page size, and calls `fn` for each range. Uses several threads if there
/// are enough bytes.
void for_each_page_range(
    std::size_t bytes,
    c10::function_ref<void(std::size_t begin, std::size_t end)> fn);

/// Like `to.copy_(from)`, but bypasses the processor's caches when both are
/// contiguous CPU tensors of the same type and shape with at least 1 MiB.
void copy_large(const at::Tensor& to, const at::Tensor& from);

}  // namespace accelerate
