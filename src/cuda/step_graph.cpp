// SPDX-License-Identifier: Apache-2.0
#include "cuda/step_graph.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

namespace accelerate::cuda {

// Notifies the allocator and the generators of the end of the capture. If the
// capture is broken, `capture_end` throws before it notifies them.
void StepGraph::Graph::abandon(bool has_ended) {
  const auto ignore_errors = [](const auto& call) {
    try {
      call();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      // The caller rethrows the exception that broke the capture.
    }
  };
  if (!has_ended) {
    ignore_errors([&] { capture_end(); });
  }
  ignore_errors([&] {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(
        capture_dev_, mempool_id_);
  });
  for (const auto& [state, increment] : captured_generator_states_) {
    state->capturing_ = false;
  }
  ignore_errors([&] { reset(); });
}

StepGraph::StepGraph(int index, const StepGraph* pool)
    : index_(index),
      pool_(pool != nullptr ? pool->pool_ : at::cuda::graph_pool_handle()),
      stream_(
          pool != nullptr ? pool->stream_
                          : c10::cuda::getStreamFromPool(
                                false, static_cast<c10::DeviceIndex>(index))) {
}

// The capture starts after all work that is already queued on the current
// stream. The generator's state is registered, so that each replay draws new
// random numbers.
void StepGraph::capture(const std::function<void()>& body) {
  const auto device = static_cast<c10::DeviceIndex>(index_);
  const c10::cuda::CUDAGuard on_device(device);
  const auto outside = c10::cuda::getCurrentCUDAStream(device);
  outside.synchronize();
  const c10::cuda::CUDAStreamGuard on_stream(stream_);
  const GraphRandomState::Scope scope(random_);
  graph_.register_generator_state(
      at::cuda::detail::getDefaultCUDAGenerator(device));
  graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
  bool has_ended = false;
  try {
    body();
    has_ended = true;
    graph_.capture_end();
  } catch (...) {
    graph_.abandon(has_ended);
    (void)cudaGetLastError();
    throw;
  }
}

void StepGraph::replay() {
  graph_.replay();
}

}  // namespace accelerate::cuda
