// SPDX-License-Identifier: Apache-2.0
// The random seed and offset that a captured forward uses.
//
// LibTorch keeps one seed and one offset in device memory, and the replay of
// any CUDA graph overwrites both. A backward that is captured separately from
// its forward must draw the same dropout masks again, but would read the seed
// and offset of another graph. Therefore, each graph keeps its own copy.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda/kernels/types.h"

namespace accelerate::cuda {

class GraphRandomState {
 public:
  /// While a `Scope` object exists, the capture on this thread draws random
  /// numbers through `state`.
  class Scope {
   public:
    explicit Scope(GraphRandomState& state);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    GraphRandomState* outer_;
  };

  /// Returns the state of the innermost `Scope` on this thread, or null if
  /// there is no `Scope`.
  static GraphRandomState* current();

  /// Returns a source with the same random numbers as `drawn`. The source reads
  /// the seed and offset from this graph's own copy in device memory. The first
  /// call adds to the capture the operation that makes this copy.
  kernels::Random copy_of(const kernels::Random& drawn);

 private:
  at::Tensor seed_and_offset_;
};

}  // namespace accelerate::cuda
