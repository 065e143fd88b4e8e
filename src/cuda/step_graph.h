// SPDX-License-Identifier: Apache-2.0
// A CUDA graph of a training step.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/blocks/recorded_random.h"
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
    /// Ends a recording that failed: the device, the allocator and the
    /// generators go on as if it had never begun.
    void abandon(bool has_ended);
  };

  int index_;
  c10::MempoolId_t pool_;
  /// The same for all graphs of a pool: backward runs where forward did.
  c10::cuda::CUDAStream stream_;
  RecordedRandom random_;
  Graph graph_;
};

}  // namespace accelerate::cuda
