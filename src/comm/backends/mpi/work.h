// SPDX-License-Identifier: Apache-2.0
// What the caller of an operation holds in its hands.
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

/// One operation, from its call to its end. Thread-safe.
class MpiWork : public c10d::Work {
 public:
  /// `results` are what `result()` and the future give.
  MpiWork(
      std::shared_ptr<Group> group,
      c10d::OpType type,
      Operation operation,
      std::vector<at::Tensor> results);

  /// Returns true when the operation is done; throws what it threw.
  ///
  /// The operation has a deadline of its own, so 0 (no limit) ends as well. A
  /// `timeout` that passes breaks the group, like that deadline.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override;

  const Operation& operation() const { return operation_; }
  /// Lets `wait` help: it is called until the work is done or its limit passed.
  void help_with(std::function<void()> progress);
  void set_source(int rank);
  /// Ends the work, with `error` or without.
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
