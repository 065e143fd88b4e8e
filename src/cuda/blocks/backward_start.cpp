// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/backward_start.h"

#include <optional>

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/graph_task.h>

namespace accelerate::cuda {
namespace {

struct Start {
  int task = -1;
  std::optional<at::cuda::CUDAEvent> event;
};

// A device's autograd thread runs one backward pass at a time. The thread exits
// after CUDA has shut down, when an event must not be destroyed, so the event
// is never freed.
Start& start() {
  thread_local Start* const instance = new Start;
  return *instance;
}

}  // namespace

void record_backward_start() {
  const int task = torch::autograd::get_current_graph_task_id();
  if (task < 0 || task == start().task ||
      c10::cuda::currentStreamCaptureStatusMayInitCtx() ==
          c10::cuda::CaptureStatus::None) {
    return;
  }
  start().task = task;
  start().event.emplace();
  start().event->record(c10::cuda::getCurrentCUDAStream());
}

at::cuda::CUDAEvent* backward_start_event() {
  const int task = torch::autograd::get_current_graph_task_id();
  return task >= 0 && task == start().task ? &*start().event : nullptr;
}

}  // namespace accelerate::cuda
