// SPDX-License-Identifier: Apache-2.0
// A CUDA graph of a training step.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/blocks/graph_random_state.h"
#include "device/device_backend.h"

namespace accelerate::cuda {

class StepGraph : public DeviceGraph {
 public:
  StepGraph(int index, const StepGraph* pool);

  void capture(const std::function<void()>& body) override;
  void replay() override;

 private:
  class Graph : public at::cuda::CUDAGraph {
   public:
    /// Ends a failed capture. Afterwards, the device, the allocator and the
    /// random generators are in the same state as if the capture had never
    /// started. `has_ended` must be true if `capture_end` has already been
    /// called.
    void abandon(bool has_ended);
  };

  int index_;
  c10::MempoolId_t pool_;
  /// The capture stream. All graphs with the same memory pool share it, so that
  /// backward runs on the same stream as forward.
  c10::cuda::CUDAStream stream_;
  GraphRandomState random_;
  Graph graph_;
};

}  // namespace accelerate::cuda
