// SPDX-License-Identifier: Apache-2.0
// A copy of the state in host memory, which a background thread writes to disk
// during training.
#pragma once

#include <atomic>
#include <future>
#include <memory>

#include <ATen/core/Tensor.h>

#include "checkpoint/fresh_memory.h"
#include "checkpoint/parts.h"

namespace accelerate {

/// Memory for a copy of one rank's part of a checkpoint. Later saves reuse the
/// memory, because copying into new pages takes twice as long.
///
/// Thread safety: only one thread may use an object at a time.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Allocates enough memory for a copy of `part` in a background thread, so
  /// that the first copy is as fast as later copies. Copies nothing.
  void prepare(const Part& part);

  /// Replaces the tensors of `part` with copies. The copies are views of this
  /// object's memory; the next call overwrites them. Copies share memory if the
  /// tensors share memory.
  void copy_in(Part& part);

 private:
  void end_preparing();
  void reserve(std::size_t bytes, bool pinned);
  at::Tensor staged_view(const at::Tensor& tensor, std::size_t offset) const;

  at::Tensor memory_;
  std::shared_ptr<const FreshMemory> fresh_;
  std::future<void> preparing_;
  std::atomic<bool> stop_preparing_ = false;
  bool pinned_ = false;
};

}  // namespace accelerate
