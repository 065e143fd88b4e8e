// SPDX-License-Identifier: Apache-2.0
// Memory for the tensors of a checkpoint, mapped directly from the system.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

namespace accelerate {

/// Alignment of each tensor in bytes, the same as LibTorch's.
inline constexpr std::size_t kTensorAlignment = 64;

/// Rounds a size up to a multiple of `kTensorAlignment`.
inline std::size_t aligned_for_tensors(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// Zero-filled memory whose pages the system allocates on first access. The
/// destructor returns all pages to the system immediately; an allocator might
/// keep them for a long time.
///
/// Uses ordinary pages. Allocating huge pages takes half as long if they are
/// available, but many times as long if memory is fragmented or if a virtual
/// machine has returned large blocks to the hypervisor.
class FreshMemory {
 public:
  /// Throws `OutOfMemoryError` with `purpose` and `hint` if the system cannot
  /// provide the memory.
  FreshMemory(
      std::size_t bytes, const std::string& purpose, const std::string& hint);
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  ~FreshMemory();

  /// Makes the system allocate all pages now, in order. Returns early if `stop`
  /// becomes true, or if the Linux kernel is too old to allocate pages on
  /// request.
  void touch(const std::atomic<bool>& stop) const;
  /// Returns the number of bytes, from the beginning, whose pages have been
  /// touched.
  std::size_t touched() const { return touched_; }
  /// Records that the caller has touched all pages.
  void set_touched() const { touched_ = size_; }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::byte* data_;
  mutable std::atomic<std::size_t> touched_ = 0;
};

}  // namespace accelerate
