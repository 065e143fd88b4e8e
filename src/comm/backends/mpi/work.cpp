// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/work.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/mpi/pause.h"

namespace accelerate::mpi {

MpiWork::MpiWork(
    std::shared_ptr<Group> group,
    c10d::OpType type,
    Operation operation,
    std::vector<at::Tensor> results)
    : Work(group->rank, type),
      group_(std::move(group)),
      operation_(std::move(operation)),
      results_(std::move(results)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()))) {
}

bool MpiWork::wait(std::chrono::milliseconds timeout) {
  const bool limited = timeout > kNoTimeout;
  const auto limit =
      limited ? Clock::now() + timeout : Clock::time_point::max();
  progress_until(limit);
  std::unique_lock lock(mutex_);
  const auto done = [this] { return completed_; };
  if (!limited) {
    cv_.wait(lock, done);
  } else if (!cv_.wait_until(lock, limit, done)) {
    const std::string reason = str_cat(
        group_->title(operation_),
        " did not finish within the ",
        timeout.count(),
        " ms passed to `wait`");
    group_->health.fail(reason);
    throw DistributedError(reason, "check what the other ranks are doing");
  }
  if (exception_) {
    std::rethrow_exception(exception_);
  }
  return true;
}

void MpiWork::progress_until(Clock::time_point limit) {
  if (!progress_) {
    return;
  }
  Pause pause;
  while (!isCompleted() && Clock::now() < limit) {
    progress_();
    pause();
  }
}

int MpiWork::sourceRank() const {
  const std::lock_guard guard(mutex_);
  return source_;
}

std::vector<at::Tensor> MpiWork::result() {
  return results_;
}

c10::intrusive_ptr<c10::ivalue::Future> MpiWork::getFuture() {
  return future_;
}

std::uint64_t MpiWork::getSequencenumber() const {
  return operation_.sequence;
}

void MpiWork::set_progress(std::function<void()> progress) {
  progress_ = std::move(progress);
}

void MpiWork::set_source(int rank) {
  const std::lock_guard guard(mutex_);
  source_ = rank;
}

void MpiWork::complete(std::exception_ptr error) {
  // Completes the work first: a callback of the future may query the work.
  finish(error);
  if (error) {
    future_->setErrorIfNeeded(error);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
}

}  // namespace accelerate::mpi
