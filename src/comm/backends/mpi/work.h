// SPDX-License-Identifier: Apache-2.0
// The handle of one MPI operation.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm/backends/mpi/group.h"

namespace accelerate::mpi {

/// One operation, from the call to its completion. Thread-safe.
class MpiWork : public c10d::Work {
 public:
  /// `result()` and the future return `results`.
  MpiWork(
      std::shared_ptr<Group> group,
      c10d::OpType type,
      Operation operation,
      std::vector<at::Tensor> results);

  /// Returns true when the operation is done; rethrows its exception.
  ///
  /// The operation has its own deadline, so `wait` returns even with a
  /// `timeout` of 0 (no limit). The group becomes unusable when `timeout` or
  /// the deadline expires.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override;

  const Operation& operation() const { return operation_; }
  /// Sets the function that `wait` calls repeatedly until the work is done or
  /// the timeout expires.
  void set_progress(std::function<void()> progress);
  void set_source(int rank);
  /// Completes the work, with or without an `error`.
  void complete(std::exception_ptr error = nullptr);

 private:
  void progress_until(Clock::time_point limit);

  const std::shared_ptr<Group> group_;
  const Operation operation_;
  const std::vector<at::Tensor> results_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::function<void()> progress_;
  int source_ = -1;
};

}  // namespace accelerate::mpi
