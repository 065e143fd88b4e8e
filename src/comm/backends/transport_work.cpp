// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/transport_work.h"

#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace accelerate {

TransportWork::TransportWork(
    int rank, c10d::OpType type, std::vector<at::Tensor> results)
    : c10d::Work(rank, type),
      results_(std::move(results)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()))) {
}

void TransportWork::complete(std::exception_ptr error) {
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
  finish(std::move(error));
}

}  // namespace accelerate
