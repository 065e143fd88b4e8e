// SPDX-License-Identifier: Apache-2.0
// Copies of states, which are larger than the processor's caches.
#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace accelerate {

/// Copies without bringing the target into the processor's caches: what is
/// about to be overwritten is not read, and what is in use stays. For memory
/// that nobody looks at soon, two thirds of `memcpy`'s time.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes);

/// Calls `fn` for parts of so many bytes that begin at multiples of a page,
/// with several threads where it pays.
void in_parts(
    std::size_t bytes,
    c10::function_ref<void(std::size_t begin, std::size_t end)> fn);

/// As `to.copy_(from)`, past the processor's caches where both are the CPU's,
/// alike and large.
void copy_large(const at::Tensor& to, const at::Tensor& from);

}  // namespace accelerate
