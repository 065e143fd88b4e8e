// SPDX-License-Identifier: Apache-2.0
// The handle of one operation on a transport.
#pragma once

#include <exception>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace accelerate {

/// The `c10d::Work` that `TransportBackend` returns. Must be completed exactly
/// once.
class TransportWork : public c10d::Work {
 public:
  TransportWork(int rank, c10d::OpType type, std::vector<at::Tensor> results);

  /// Completes the work, with or without an `error`.
  void complete(std::exception_ptr error);

  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future_;
  }

 private:
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace accelerate
