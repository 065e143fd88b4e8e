// SPDX-License-Identifier: Apache-2.0
// Where a recorded forward keeps what its random numbers began with.
//
// LibTorch has one pair of seed and offset in device memory, which each graph
// that is started overwrites. A backward that is recorded apart from its
// forward, and draws the same masks again, would find another graph's pair.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda/kernels/types.h"

namespace accelerate::cuda {

class RecordedRandom {
 public:
  /// The recording under way on this thread draws through `home`.
  class Scope {
   public:
    explicit Scope(RecordedRandom& home);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    RecordedRandom* outer_;
  };

  /// What is recorded now, or null.
  static RecordedRandom* current();

  /// The same numbers as `drawn`, whose pair lies in device memory; the first
  /// time the recording gets a copy of that pair.
  kernels::Random keep(const kernels::Random& drawn);

 private:
  at::Tensor pair_;
};

}  // namespace accelerate::cuda
