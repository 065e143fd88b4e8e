// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/large_copies.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <ATen/Parallel.h>

#include "checkpoint/page_filler.h"

namespace accelerate {
namespace {

// The minimum number of bytes per thread.
constexpr std::size_t kGrain = std::size_t{8} << 20;
// Smaller copies may still be in a cache when they are used.
constexpr std::size_t kLarge = std::size_t{1} << 20;

bool is_alike_and_large(const at::Tensor& to, const at::Tensor& from) {
  return to.is_cpu() && from.is_cpu() && to.is_contiguous() &&
         from.is_contiguous() && to.scalar_type() == from.scalar_type() &&
         to.sizes() == from.sizes() && to.nbytes() >= kLarge;
}

}  // namespace

void copy_bypassing_caches(
    std::byte* to, const std::byte* from, const std::size_t bytes) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64;
  const std::size_t before = std::min(
      bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, before);
  std::size_t at = before;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i first = _mm_loadu_si128(source);
    const __m128i second = _mm_loadu_si128(source + 1);
    const __m128i third = _mm_loadu_si128(source + 2);
    const __m128i fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
  }
  std::memcpy(to + at, from + at, bytes - at);
  // Makes the stores visible before anything that signals completion.
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

void for_each_page_range(
    const std::size_t bytes,
    const c10::function_ref<void(std::size_t begin, std::size_t end)> fn) {
  const std::size_t page = page_bytes();
  at::parallel_for(
      0,
      static_cast<std::int64_t>(aligned_to_pages(bytes) / page),
      static_cast<std::int64_t>(kGrain / page),
      [&](const std::int64_t first, const std::int64_t last) {
        fn(static_cast<std::size_t>(first) * page,
           std::min(bytes, static_cast<std::size_t>(last) * page));
      });
}

void copy_large(const at::Tensor& to, const at::Tensor& from) {
  if (!is_alike_and_large(to, from)) {
    to.copy_(from);
    return;
  }
  auto* target = static_cast<std::byte*>(to.mutable_data_ptr());
  const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
  for_each_page_range(
      to.nbytes(), [&](const std::size_t begin, const std::size_t end) {
        copy_bypassing_caches(target + begin, source + begin, end - begin);
      });
  // As with `copy_`, an autograd graph that saved the old values must detect
  // the change.
  to.unsafeGetTensorImpl()->bump_version();
}

}  // namespace accelerate
