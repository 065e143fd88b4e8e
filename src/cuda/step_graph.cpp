// SPDX-License-Identifier: Apache-2.0
#include "cuda/step_graph.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAGuard.h>

namespace accelerate::cuda {

StepGraph::StepGraph(int index, const StepGraph* pool)
    : index_(index),
      pool_(pool != nullptr ? pool->pool_ : at::cuda::graph_pool_handle()) {
}

// Recorded on a stream of its own, which begins after what the current one
// has been given so far. The generator's state is registered, so that each
// replay draws new random numbers.
void StepGraph::capture(const std::function<void()>& body) {
  const auto device = static_cast<c10::DeviceIndex>(index_);
  const c10::cuda::CUDAGuard on_device(device);
  const auto outside = c10::cuda::getCurrentCUDAStream(device);
  const auto stream = c10::cuda::getStreamFromPool(false, device);
  outside.synchronize();
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  graph_.register_generator_state(
      at::cuda::detail::getDefaultCUDAGenerator(device));
  graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
  try {
    body();
  } catch (...) {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      // What broke the recording is the exception that counts.
    }
    graph_.reset();
    (void)cudaGetLastError();
    throw;
  }
  graph_.capture_end();
}

void StepGraph::replay() {
  graph_.replay();
}

}  // namespace accelerate::cuda
