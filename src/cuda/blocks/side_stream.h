// SPDX-License-Identifier: Apache-2.0
// A second stream for weight gradients. Nothing else in backward waits for
// weight gradients, so they can be computed on SMs that a small GEMM leaves
// idle.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace accelerate::cuda {

/// Runs work on a second stream. `join` and the destructor make the current
/// stream wait for this work. Tensors that the work reads must exist until
/// then. Tensors that the work writes must be allocated before the work starts.
/// In a captured CUDA graph, the work becomes a branch of the graph.
class SideStream {
 public:
  /// If `is_on` is false, all work runs on the current stream. This is useful
  /// for large GEMMs, which leave no SMs idle.
  explicit SideStream(bool is_on) : is_on_(is_on) {}
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  ~SideStream() { join(); }

  template <typename Work>
  void run(Work work) {
    if (!is_on_) {
      work();
      return;
    }
    const auto side = stream();
    at::cuda::CUDAEvent reached;
    reached.record(c10::cuda::getCurrentCUDAStream());
    reached.block(side);
    const c10::cuda::CUDAStreamGuard guard(side);
    work();
    has_work_ = true;
  }

  /// Keeps `tensor`, which the work reads, alive until `join` is called.
  void keep_alive(const at::Tensor& tensor) {
    if (is_on_) {
      held_.push_back(tensor);
    }
  }

  void join() {
    if (has_work_) {
      at::cuda::CUDAEvent done;
      done.record(stream());
      done.block(c10::cuda::getCurrentCUDAStream());
      has_work_ = false;
    }
    held_.clear();
  }

 private:
  static c10::cuda::CUDAStream stream() {
    thread_local const c10::cuda::CUDAStream instance =
        c10::cuda::getStreamFromPool();
    return instance;
  }

  bool is_on_;
  bool has_work_ = false;
  std::vector<at::Tensor> held_;
};

/// Returns the maximum number of rows of a batch for which the side stream is
/// used; GEMMs with more rows leave no SMs idle. The value may be changed only
/// before the first step.
inline std::int64_t& side_stream_max_rows() {
  static std::int64_t rows = 6144;
  return rows;
}

}  // namespace accelerate::cuda
