// SPDX-License-Identifier: Apache-2.0
// The handle of one operation on a transport.
#pragma once

#include <exception>
#include <functional>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace accelerate {

/// The `c10d::Work` that our own backends return. Must be completed exactly
/// once.
class TransportWork : public c10d::Work {
 public:
  TransportWork(int rank, c10d::OpType type, std::vector<at::Tensor> results);

  /// Runs `operation` and completes the work. Returns the exception that
  /// `operation` threw, or null.
  std::exception_ptr run(const std::function<void()>& operation);

  void complete(std::exception_ptr error, int source = -1);

  std::vector<at::Tensor> result() override { return results_; }
  int sourceRank() const override { return source_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future_;
  }

 private:
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_ = -1;
};

}  // namespace accelerate
