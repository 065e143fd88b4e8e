// SPDX-License-Identifier: Apache-2.0
// Work beside the current stream: gradients of weights, which nothing in
// backward waits for, fill the processors that a small product leaves idle.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace accelerate::cuda {

/// Runs work on a second stream and joins it at the end of its life. What that
/// work reads must live until then, and what it writes be made before.
/// Captured graphs get a branch.
class Aside {
 public:
  /// Large products fill the device alone: then all runs on one stream.
  explicit Aside(bool is_on) : is_on_(is_on) {}
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() { join(); }

  template <typename Work>
  void run(Work work) {
    if (!is_on_) {
      work();
      return;
    }
    const auto side = side_stream();
    at::cuda::CUDAEvent reached;
    reached.record(c10::cuda::getCurrentCUDAStream());
    reached.block(side);
    const c10::cuda::CUDAStreamGuard guard(side);
    work();
    has_work_ = true;
  }

  /// Keeps a tensor that the work reads until it is joined.
  void hold(const at::Tensor& tensor) {
    if (is_on_) {
      held_.push_back(tensor);
    }
  }

  void join() {
    if (has_work_) {
      at::cuda::CUDAEvent done;
      done.record(side_stream());
      done.block(c10::cuda::getCurrentCUDAStream());
      has_work_ = false;
    }
    held_.clear();
  }

 private:
  static c10::cuda::CUDAStream side_stream() {
    thread_local const c10::cuda::CUDAStream stream =
        c10::cuda::getStreamFromPool();
    return stream;
  }

  bool is_on_;
  bool has_work_ = false;
  std::vector<at::Tensor> held_;
};

/// Rows up to which products leave processors idle; may be set before the
/// first step.
inline std::int64_t& aside_rows() {
  static std::int64_t rows = 6144;
  return rows;
}

}  // namespace accelerate::cuda
