// SPDX-License-Identifier: Apache-2.0
// Distributes each row of a norm's input over the registers of several threads.
//
// Each of `kThreads` threads holds `kVectors` vectors of eight elements. Thread
// t holds the vectors t, t + kThreads, and so on. A row of up to 1024 elements
// is handled by one warp, which needs no barrier. A longer row is handled by a
// thread block.
#pragma once

#include "cuda/kernels/common.cuh"

namespace accelerate::cuda::kernels {

template <int kThreadsOfRow, int kVectorsOfThread>
struct RowShape {
  static constexpr int kThreads = kThreadsOfRow;
  static constexpr int kVectors = kVectorsOfThread;
  /// A thread block handles one long row or four short rows.
  static constexpr int kRows = kThreads == kWarp ? 4 : 1;
  static constexpr int kBlock = kRows * kThreads;

  __device__ static int lane() {
    return static_cast<int>(threadIdx.x) % kThreads;
  }
  __device__ static int row_in_block() {
    return static_cast<int>(threadIdx.x) / kThreads;
  }
  __device__ static int column(int vector) {
    return (lane() + vector * kThreads) * kVector;
  }
};

/// Calls `f` with the shape for rows of `width` elements; `width` must be a
/// multiple of eight. Returns false if no shape supports this width.
template <typename F>
bool with_row_shape(std::int64_t width, F f) {
  if (width <= 256) {
    f(RowShape<32, 1>());
  } else if (width <= 512) {
    f(RowShape<32, 2>());
  } else if (width <= 768) {
    f(RowShape<32, 3>());
  } else if (width <= 1024) {
    f(RowShape<32, 4>());
  } else if (width <= 2048) {
    f(RowShape<256, 1>());
  } else if (width <= 4096) {
    f(RowShape<256, 2>());
  } else if (width <= 8192) {
    f(RowShape<512, 2>());
  } else {
    return false;
  }
  return true;
}

}  // namespace accelerate::cuda::kernels
