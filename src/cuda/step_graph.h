// SPDX-License-Identifier: Apache-2.0
// A CUDA graph of a training step.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include "device/device_backend.h"

namespace accelerate::cuda {

class StepGraph : public DeviceGraph {
 public:
  StepGraph(int index, const StepGraph* pool);

  void capture(const std::function<void()>& body) override;
  void replay() override;

 private:
  int index_;
  c10::MempoolId_t pool_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace accelerate::cuda
