// SPDX-License-Identifier: Apache-2.0
// Memory for a state, straight from the system.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

namespace accelerate {

/// Bytes that one tensor begins after another, as LibTorch's own do.
inline constexpr std::size_t kTensorAlignment = 64;

inline std::size_t aligned_for_tensors(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// Zeros that nobody has touched. Goes back to the system as a whole, which an
/// allocator's memory might not for long.
///
/// In ordinary pages. Huge ones would halve the work where they are at hand,
/// but take many times as long where memory is in pieces or a virtual machine
/// has given large blocks back to its host.
class FreshMemory {
 public:
  /// `what` it is for and `hint` are for the `OutOfMemoryError`.
  FreshMemory(
      std::size_t bytes, const std::string& what, const std::string& hint);
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  ~FreshMemory();

  /// Has the system give every page now, until `stop` says otherwise.
  void touch(const std::atomic<bool>& stop) const;
  /// The bytes at the beginning that were touched so, or by somebody who says
  /// so.
  std::size_t touched() const { return touched_; }
  void set_touched() const { touched_ = size_; }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::byte* data_;
  mutable std::atomic<std::size_t> touched_ = 0;
};

}  // namespace accelerate
