// SPDX-License-Identifier: Apache-2.0
// A copy of the state on the host, for a writer that works while training goes
// on.
#pragma once

#include <atomic>
#include <future>
#include <memory>

#include <ATen/core/Tensor.h>

#include "checkpoint/fresh_memory.h"
#include "checkpoint/parts.h"

namespace accelerate {

/// Memory for one copy of a part, kept from one save to the next: fresh pages
/// would make each copy twice as slow.
///
/// Thread safety: one thread at a time.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Gets the memory for a part like this one in a thread beside training, so
  /// that the first copy costs what later ones do. Copies nothing.
  void prepare(const Part& part);

  /// Copies the tensors of `part` and puts the copies in their place. They
  /// look into the memory of this object, and change with the next call.
  /// Tensors that were one stay one.
  void take(Part& part);

 private:
  void end_preparing();
  void reserve(std::size_t bytes, bool pinned);
  at::Tensor place_for(const at::Tensor& tensor, std::size_t offset) const;

  at::Tensor memory_;
  std::shared_ptr<const FreshMemory> fresh_;
  std::future<void> preparing_;
  std::atomic<bool> stop_preparing_ = false;
  bool pinned_ = false;
};

}  // namespace accelerate
